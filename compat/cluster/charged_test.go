package cluster

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gregor-broker/gregor/compat/harness"
)

// TestAutoCreationIsChargedWhereItIsAsked: a topic that a client's Metadata has created counts against the client's quota of such changes
// at the broker that was asked, whichever broker is the controller, and at no other. Quotas are each broker's own.
func TestAutoCreationIsChargedWhereItIsAsked(t *testing.T) {
	harness.NeedCluster(t)
	ports := map[int]int{}
	for id := 1; id <= 2; id++ {
		ports[id] = freePorts(t, 1)
	}
	ours := harness.Peer() == harness.Gregor
	o := harness.ClusterOptions{
		Kinds: []harness.Kind{harness.Peer(), harness.Peer()},
		Props: map[string]string{
			"num.partitions": "7", "default.replication.factor": "1", "auto.create.topics.enable": "true",
			"controller.quota.window.size.seconds": "3600", // so that what was charged is still seen when somebody looks
		},
	}
	if ours {
		o.PropsOf = func(id int) map[string]string {
			return map[string]string{"gregor.http.listener": fmt.Sprint("127.0.0.1:", ports[id])}
		}
	} else {
		o.EnvOf = func(id int) []string { return harness.JMXEnv(ports[id]) }
	}
	c := harness.StartCluster(t, o)
	asked := 3 - c.Controller(t) // the other
	const creator = "creator"
	name := creator
	client, err := kgo.NewClient(harness.RetryEOF(), kgo.SeedBrokers(c.Addrs()...), kgo.ClientID(creator))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	setMutationQuota(t, admin, &name, 100)
	charged := func(id int) float64 {
		if ours {
			return scraped(t, ports[id], `kafka_server_quota_mutation_rate\{clientId="creator",resource="ControllerMutation"\}`)
		}
		const bean = "kafka.server:type=ControllerMutation,client-id=creator"
		return c.Broker(id).JMX(t, ports[id], "mutation-rate", bean)[bean]
	}
	create := func(topic string) error { // until it is there that is an error
		r := kmsg.NewPtrMetadataRequest()
		of := kmsg.NewMetadataRequestTopic()
		of.Topic = kmsg.StringPtr(topic)
		r.Topics, r.AllowAutoTopicCreation = append(r.Topics, of), true
		answer, err := client.Broker(asked).Request(harness.Context(t, limit), r)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.(*kmsg.MetadataResponse).Topics[0].ErrorCode)
	}
	n := 0
	harness.Eventually(t, limit, func() error { // until the broker knows of the quota
		n++
		_ = create(fmt.Sprint("auto-", n))
		if charged(asked) == 0 {
			return fmt.Errorf("broker %d has charged nothing after %d topics", asked, n)
		}
		return nil
	})
	if rate := charged(3 - asked); rate != 0 {
		t.Errorf("the controller has charged a client of another broker, %v per second", rate)
	}
	// A quota of everybody's, which brokers have no part in: what the client is let do is done, as often as it likes.
	setMutationQuota(t, admin, nil, 1e-6)
	setMutationQuota(t, admin, &name, 0)
	for i := range 5 {
		topic := fmt.Sprint("more-", i)
		harness.Eventually(t, limit, func() error { return create(topic) })
	}
}

// setMutationQuota sets a client id's controller_mutation_rate, that of all others for nil, or takes it back (0).
func setMutationQuota(t *testing.T, admin *kadm.Client, id *string, rate float64) {
	t.Helper()
	answer, err := admin.AlterClientQuotas(harness.Context(t, limit), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: id}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "controller_mutation_rate", Value: rate, Remove: rate == 0}},
	}})
	if err == nil {
		err = answer[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
}

// scraped returns a value that a broker shows, 0 for none.
func scraped(t *testing.T, port int, pattern string) float64 {
	t.Helper()
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + pattern + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	value, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
