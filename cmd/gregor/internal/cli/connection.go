package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// serverVariable is the environment variable that stands in for --bootstrap-server.
const serverVariable = "GREGOR_BOOTSTRAP_SERVER"

const (
	defaultPort   = "9092"
	defaultServer = "127.0.0.1:" + defaultPort
)

// How long a command waits for the first answer, and shell completion for its proposals.
const (
	dialTimeout     = 5 * time.Second
	retryTimeout    = 15 * time.Second
	completeTimeout = 2 * time.Second
)

// How long a command waits for a coordinator that is not there yet, and how often it asks.
const (
	coordinatorTimeout = 5 * time.Second
	coordinatorPause   = 50 * time.Millisecond
)

// Connection is how a command reaches a broker.
type Connection struct{ servers []string }

// AddFlags gives a command, and its subcommands, the flag that says where the broker is.
func (c *Connection) AddFlags(cmd *cobra.Command) {
	server := []string{defaultServer}
	if v := os.Getenv(serverVariable); v != "" {
		server = strings.Split(v, ",")
	}
	cmd.PersistentFlags().StringSliceVarP(&c.servers, "bootstrap-server", "b", server,
		"`host:port` of a broker, or several; also "+serverVariable)
	_ = cmd.RegisterFlagCompletionFunc("bootstrap-server", cobra.NoFileCompletions)
}

// Servers returns the addresses that were given, each with a port.
func (c *Connection) Servers() ([]string, error) {
	if len(c.servers) == 0 {
		return nil, Usagef("--bootstrap-server names no broker: want host:port")
	}
	all := make([]string, len(c.servers))
	for i, server := range c.servers {
		host, port := server, defaultPort
		if h, p, err := net.SplitHostPort(server); err == nil {
			host, port = h, p
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/ ") {
			return nil, Usagef("--bootstrap-server %s: want host:port", server)
		}
		all[i] = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	return all, nil
}

// Client makes sure that a broker answers and returns a client of it. The caller closes the client.
func (c *Connection) Client(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	if err := c.answers(ctx); err != nil {
		return nil, err
	}
	// Whoever was answered lacks no SASL: a broker that closes a connection at once is one that ends.
	return c.client(append(opts, kgo.AlwaysRetryEOF())...)
}

// answers makes sure that a broker answers.
func (c *Connection) answers(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return noAnswer(c.servers, err)
	}
	return nil
}

// noAnswer says why none of the addresses answers, in the words of the system, and where to find out more.
func noAnswer(servers []string, err error) error {
	text := strings.TrimPrefix(err.Error(), "unable to dial: ")
	return fmt.Errorf("no broker answers at %s: %s; gregor doctor connect looks closer", strings.Join(servers, ", "), text)
}

func (c *Connection) client(opts ...kgo.Opt) (*kgo.Client, error) {
	servers, err := c.Servers()
	if err != nil {
		return nil, err
	}
	base := []kgo.Opt{kgo.SeedBrokers(servers...), kgo.ClientID("gregor"), kgo.DialTimeout(dialTimeout), kgo.RetryTimeout(retryTimeout)}
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, Usage(err)
	}
	return client, nil
}

// Admin connects to the broker for administration.
func (c *Connection) Admin(ctx context.Context, opts ...kgo.Opt) (*kadm.Client, error) {
	client, err := c.Client(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(client), nil
}

// AskCoordinator asks again, for a while, as long as there is no coordinator: the topic that it keeps its state in is made by the first
// question.
func AskCoordinator[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	limit := time.After(coordinatorTimeout)
	for {
		answer, err := ask(ctx)
		if !errors.Is(err, kerr.CoordinatorNotAvailable) && !errors.Is(err, kerr.CoordinatorLoadInProgress) && !errors.Is(err, kerr.NotCoordinator) {
			return answer, err
		}
		select {
		case <-time.After(coordinatorPause):
		case <-limit:
			return answer, err
		case <-ctx.Done():
			return answer, err
		}
	}
}

// CompletionFunc is what cobra calls for the arguments of a command.
type CompletionFunc = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// CompleteTopics proposes the broker's topics, up to max arguments (0: any number).
func (c *Connection) CompleteTopics(max int) CompletionFunc {
	return c.complete(max, func(ctx context.Context, admin *kadm.Client) ([]string, error) {
		topics, err := admin.ListTopics(ctx)
		return topics.Names(), err
	})
}

// CompleteGroups proposes the broker's groups.
func (c *Connection) CompleteGroups(max int) CompletionFunc {
	return c.complete(max, func(ctx context.Context, admin *kadm.Client) ([]string, error) {
		groups, err := admin.ListGroups(ctx)
		return groups.Groups(), err
	})
}

func (c *Connection) complete(max int, list func(context.Context, *kadm.Client) ([]string, error)) CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if max > 0 && len(args) >= max {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
		defer cancel()
		client, err := c.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer client.Close()
		names, err := list(ctx, kadm.NewClient(client))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return proposals(names, args, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// proposals are the names that begin as typed and are not given yet.
func proposals(names, given []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !strings.HasPrefix(name, typed) || slices.Contains(given, name)
	})
}
