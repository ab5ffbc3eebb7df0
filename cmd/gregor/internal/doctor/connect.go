package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// probeLimit is how long one address may take for each step.
const probeLimit = 5 * time.Second

func connectCommand(c *cli.Connection) *cobra.Command {
	return &cobra.Command{
		Use:   "connect",
		Short: "Say why a client cannot connect",
		Long: `Go the way of a client: look the name up, connect, ask for the broker's versions, ask who else is in the cluster, and
do the same for each address that the brokers hand out, which is where most surprises are.`,
		Example:           `  gregor doctor connect -b broker:9092`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			servers, err := c.Servers()
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), connect(cmd.Context(), servers))
		},
	}
}

// connect goes the way of a client.
func connect(ctx context.Context, servers []string) []finding {
	var findings []finding
	var cluster *kmsg.MetadataResponse
	var via string
	for _, server := range servers {
		p := probe(ctx, server)
		findings = append(findings, p.judge("bootstrap server "+server))
		if cluster == nil && p.cluster != nil {
			cluster, via = p.cluster, server
		}
	}
	if cluster == nil {
		return findings
	}
	if len(cluster.Brokers) == 0 {
		return append(findings, finding{about: "brokers", wrong: via + " knows of no broker, not even itself",
			todo: "It is starting, or has lost its controller: look at its log."})
	}
	for _, b := range cluster.Brokers {
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		about := fmt.Sprintf("broker %d, which clients are told is at %s", b.NodeID, address)
		p := probe(ctx, address)
		f := p.judge(about)
		if p.lookup != nil || p.dial != nil {
			f.todo = "Clients go to this address after the first answer. If it is not theirs to reach (another network, a container, a port that is " +
				"mapped), set advertised.listeners of that broker to one that is."
		}
		findings = append(findings, f)
	}
	return append(append(findings, judgeAddresses(cluster)...), judgeController(cluster))
}

// judgeAddresses finds addresses that several brokers hand out: at most one of them is there.
func judgeAddresses(cluster *kmsg.MetadataResponse) (findings []finding) {
	first := map[string]int32{}
	for _, b := range cluster.Brokers {
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		if other, taken := first[address]; taken {
			findings = append(findings, finding{about: "address " + address,
				wrong: fmt.Sprintf("clients are told that brokers %d and %d are both there", other, b.NodeID),
				todo:  "Requests for one of them arrive at the other. Give each its own advertised.listeners."})
			continue
		}
		first[address] = b.NodeID
	}
	return findings
}

func judgeController(cluster *kmsg.MetadataResponse) finding {
	f := finding{about: "controller"}
	for _, b := range cluster.Brokers {
		if b.NodeID == cluster.ControllerID {
			f.note = "broker " + strconv.Itoa(int(b.NodeID))
			return f
		}
	}
	f.wrong = "the cluster has none that lives: topics cannot be created and no leader is elected"
	f.todo = "Look at the brokers' logs, and at ZooKeeper."
	return f
}

// probed is how far a client gets with an address.
type probed struct {
	lookup, dial, versions, metadata error // of the step that failed
	addresses                        []string
	cluster                          *kmsg.MetadataResponse
}

func probe(ctx context.Context, address string) (p probed) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		p.lookup = err
		return p
	}
	ctx, cancel := context.WithTimeout(ctx, 4*probeLimit)
	defer cancel()
	if p.addresses, p.lookup = net.DefaultResolver.LookupHost(ctx, host); p.lookup != nil {
		return p
	}
	dialer := net.Dialer{Timeout: probeLimit}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if p.dial = err; err != nil {
		return p
	}
	defer conn.Close()
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "gregor-doctor", "1"
	if _, p.versions = ask(conn, versions); p.versions != nil {
		return p
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version, metadata.Topics = 1, []kmsg.MetadataRequestTopic{}
	answer, err := ask(conn, metadata)
	if p.metadata = err; err == nil {
		p.cluster = answer.(*kmsg.MetadataResponse)
	}
	return p
}

// ask sends a request of a version that is not flexible and reads its answer.
func ask(conn net.Conn, r kmsg.Request) (kmsg.Response, error) {
	if err := conn.SetDeadline(time.Now().Add(probeLimit)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("gregor-doctor")).AppendRequest(nil, r, 1)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	const most = 64 << 20
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > most || binary.BigEndian.Uint32(head[4:]) != 1 {
		return nil, fmt.Errorf("%w: it begins with %q", errNotKafka, head[:])
	}
	body, err := io.ReadAll(io.LimitReader(conn, int64(size-4)))
	if err == nil && len(body) < int(size-4) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	response := r.ResponseKind()
	response.SetVersion(r.GetVersion())
	if err := response.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotKafka, err)
	}
	return response, nil
}

var errNotKafka = errors.New("what answers does not speak Kafka's protocol")

// judge says in words how far a client got.
func (p *probed) judge(about string) finding {
	f := finding{about: about}
	switch {
	case p.lookup != nil:
		f.wrong = "the name cannot be looked up: " + p.lookup.Error()
		f.todo = "Is it spelled right, with a port, and does this machine's resolver know it?"
	case errors.Is(p.dial, syscall.ECONNREFUSED):
		f.wrong = fmt.Sprintf("nothing listens there (%s)", strings.Join(p.addresses, ", "))
		f.todo = "Does the broker run, and do its listeners include this address and port?"
	case isTimeout(p.dial):
		f.wrong = fmt.Sprintf("no answer to the attempt to connect (%s)", strings.Join(p.addresses, ", "))
		f.todo = "A firewall drops it, or the address belongs to a network that cannot be reached from here."
	case p.dial != nil:
		f.wrong = "no connection: " + p.dial.Error()
	case p.versions != nil:
		f.wrong, f.todo = judgeSilence(p.versions)
	case isTimeout(p.metadata):
		f.wrong = "it answers, but does not say who is in the cluster"
		f.todo = "It starts, and waits for the controller, which may not reach it at the address that it advertises: its log says what it waits for."
	case p.metadata != nil:
		f.wrong = "it answers, but not who is in the cluster: " + p.metadata.Error()
	default:
		f.note = fmt.Sprintf("answers; the cluster has %s", cli.Count(len(p.cluster.Brokers), "broker"))
	}
	return f
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

func judgeSilence(err error) (wrong, todo string) {
	switch {
	case errors.Is(err, errNotKafka):
		return err.Error(), "Something else uses this port."
	case isTimeout(err):
		return "it accepts connections and does not answer", "It is overloaded or stopped, or the port belongs to something that waits for another protocol (TLS)."
	}
	return "it closes the connection at the first request: " + err.Error(), "The listener may want TLS or SASL, or has all the connections that max.connections allows."
}
