package zookeeper

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	zoo "github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestClusterWithACLs runs three brokers that reach ZooKeeper over TLS with a certificate and zookeeper.set.acl: they work, and every node
// of theirs has the access list that Kafka gives it. GREGOR_COMPAT_PEER=kafka-3.9 shows that it is Kafka's.
func TestClusterWithACLs(t *testing.T) {
	harness.NeedCluster(t)
	a := newAuthority(t, t.TempDir())
	a.sign(t, "broker", &x509.Certificate{})
	port, settings := a.server(t)
	const chroot = "/whole"
	secure := fmt.Sprintf("localhost:%d", port)
	c := harness.StartCluster(t, harness.ClusterOptions{ZooKeeper: settings, Props: map[string]string{
		"zookeeper.connect": secure + chroot, "zookeeper.set.acl": "true", "zookeeper.ssl.client.enable": "true",
		"zookeeper.clientCnxnSocket":      "org.apache.zookeeper.ClientCnxnSocketNetty",
		"zookeeper.ssl.keystore.location": a.path("broker"), "zookeeper.ssl.keystore.type": "PEM",
		"zookeeper.ssl.truststore.location": a.path("authority"), "zookeeper.ssl.truststore.type": "PEM",
	}})
	c.CreateTopic(t, "guarded", 2, 3)
	ctx := harness.Context(t, time.Minute)
	client := c.Client(t, kgo.DefaultProduceTopic("guarded"), kgo.ConsumeTopics("guarded"))
	if err := client.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := client.PollFetches(ctx).Records(); len(got) != 1 || string(got[0].Value) != "v" {
		t.Errorf("read %v", got)
	}
	alterSecrets(ctx, t, kadm.NewClient(client))

	stranger, insider := dialTree(t, c.ZooKeeper.Addr, nil), dialTree(t, secure, a.tls(t, "broker"))
	harness.Eventually(t, limit, func() error { return checkTree(insider, stranger, chroot) })
	if _, err := stranger.Set(chroot+"/brokers/topics/guarded", nil, -1); !errors.Is(err, zoo.ErrNoAuth) {
		t.Errorf("a stranger writes a topic: %v", err)
	}
}

// alterSecrets makes nodes that hold secrets: of a broker and of a user.
func alterSecrets(ctx context.Context, t *testing.T, admin *kadm.Client) {
	t.Helper()
	value := "2000000"
	responses, err := admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "message.max.bytes", Value: &value}}, 1)
	if err == nil {
		_, err = responses.On("1", func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		t.Fatalf("alter a broker's configuration: %v", err)
	}
	user := "alice"
	altered, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1 << 20}},
	}})
	if err == nil {
		err = altered[0].Err
	}
	if err != nil {
		t.Fatalf("alter a user's quota: %v", err)
	}
}

// tls is how a client shows that certificate.
func (a *authority) tls(t *testing.T, name string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.path(name), a.path(name))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(a.path("authority"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trusted, ServerName: "localhost"}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// dialTree opens a session, over TLS if it is given a configuration.
func dialTree(t *testing.T, addr string, o *tls.Config) *zoo.Conn {
	t.Helper()
	conn, _, err := zoo.Connect([]string{addr}, sessionTimeout, zoo.WithLogger(silent{}),
		zoo.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			dialer := &net.Dialer{Timeout: timeout}
			if o == nil {
				return dialer.Dial(network, address)
			}
			return tls.DialWithDialer(dialer, network, address, o)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// checkTree compares each node's access list, and what a stranger may read.
func checkTree(insider, stranger *zoo.Conn, chroot string) error {
	creator := zoo.ACL{Perms: zoo.PermAll, Scheme: "x509", ID: "CN=broker"}
	kinds := map[string]int{}
	err := walk(insider, chroot, func(node string) error {
		kind, want := "readable", []zoo.ACL{creator, {Perms: zoo.PermRead, Scheme: "world", ID: "anyone"}}
		switch below := strings.TrimPrefix(node, chroot); {
		case below == "/consumers":
			kind, want = "open", zoo.WorldACL(zoo.PermAll)
		case strings.HasPrefix(below, "/config/users"), strings.HasPrefix(below, "/config/brokers"),
			strings.HasPrefix(below, "/delegation_token/tokens"):
			kind, want = "secret", []zoo.ACL{creator}
		}
		kinds[kind]++
		got, _, err := insider.GetACL(node)
		if err != nil {
			return fmt.Errorf("%s: %w", node, err)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s has %v, want %v", node, got, want)
		}
		if _, _, err = stranger.Get(node); errors.Is(err, zoo.ErrNoAuth) != (kind == "secret") {
			return fmt.Errorf("%s, which is %s: a stranger gets %v", node, kind, err)
		}
		return nil
	})
	if err == nil && (kinds["open"] != 1 || kinds["secret"] < 4 || kinds["readable"] < 20) {
		err = fmt.Errorf("too few nodes: %v", kinds)
	}
	return err
}

// walk visits a node and all below it.
func walk(conn *zoo.Conn, node string, visit func(string) error) error {
	if err := visit(node); err != nil {
		return err
	}
	children, _, err := conn.Children(node)
	if err != nil {
		return fmt.Errorf("%s: %w", node, err)
	}
	for _, child := range children {
		if err := walk(conn, path.Join(node, child), visit); err != nil {
			return err
		}
	}
	return nil
}
