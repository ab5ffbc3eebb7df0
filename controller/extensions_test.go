package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// grouped carries orders out and answers ListGroups for every broker.
type grouped struct {
	Transport
	mu     sync.Mutex
	groups map[string]string // state of a group of the consumer protocol
	code   int16
}

func (g *grouped) set(code int16, groups map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.code, g.groups = code, groups
}

func (g *grouped) Send(ctx context.Context, broker int32, r kmsg.Request) (kmsg.Response, error) {
	list, ok := r.(*kmsg.ListGroupsRequest)
	switch {
	case !ok && broker != 1:
		return r.ResponseKind(), nil
	case !ok:
		return g.Transport.Send(ctx, broker, r)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	resp := kmsg.NewPtrListGroupsResponse()
	resp.ErrorCode = g.code
	if broker == 1 && len(list.TypesFilter) == 1 && list.TypesFilter[0] == "consumer" {
		for id, state := range g.groups {
			resp.Groups = append(resp.Groups, kmsg.ListGroupsResponseGroup{Group: id, GroupState: state, GroupType: "consumer"})
		}
	}
	return resp, nil
}

// marked is a broker that knows the setting, with the features that the setting brings.
func marked(o *Options) {
	o.Broker.Extensions = ExtensionsLevel
	o.Settings.Extensions = []Feature{{Name: "group.version", Max: 1, Initial: 1}, {Name: "transaction.version", Max: 2, Initial: 2}}
}

// join registers another broker.
func join(t *testing.T, f *storetest.Fake, id int32, level int16) *storetest.Client {
	t.Helper()
	b := brokerNode(id)
	b.Extensions = level
	client := f.Client()
	if _, err := client.Commit(t.Context(), store.Create(znode.BrokerPath(id), b.Encode(), store.Ephemeral)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// setExtensions asks for a level and returns the code and the words of the answer.
func (n *node) setExtensions(level int16, kind int8) (int16, string) {
	n.t.Helper()
	resp := n.updateFeatures(updateFeaturesRequest(1, featureUpdate{znode.Extensions, level, kind, false}))
	if resp.ErrorCode != 0 || len(resp.Results) != 1 {
		n.t.Fatalf("%d, %d results", resp.ErrorCode, len(resp.Results))
	}
	words := ""
	if m := resp.Results[0].ErrorMessage; m != nil {
		words = *m
	}
	return resp.Results[0].ErrorCode, words
}

// eventually waits until check is content.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(time.Millisecond)
	}
}

func TestExtensionsAreSwitched(t *testing.T) {
	f := storetest.NewFake(clock.System)
	core, logs := observer.New(zapcore.ErrorLevel)
	var transport *grouped
	n := start(t, f.Client(), marked, func(o *Options) {
		transport = &grouped{Transport: o.Transport}
		o.Transport, o.Logger = transport, zap.New(core)
	})
	refused := func(level int16, kind int8, words string) {
		t.Helper()
		if code, got := n.setExtensions(level, kind); code != kerr.InvalidRequest.Code || !strings.Contains(got, words) {
			t.Errorf("level %d, type %d: %d %q, want %q", level, kind, code, got, words)
		}
	}
	accepted := func(level int16, kind int8) {
		t.Helper()
		if code, words := n.setExtensions(level, kind); code != 0 {
			t.Errorf("level %d, type %d: %d %q", level, kind, code, words)
		}
	}
	eventually(t, func() error {
		if epoch := n.Features().Epoch; epoch != 0 {
			return fmt.Errorf("the first controller has not written /feature yet: epoch %d", epoch)
		}
		return nil
	})
	if f.Dump()[znode.OwnPath] != "" || n.Features().Level("group.version") != 0 {
		t.Error("it is on at first")
	}
	foreign := join(t, f, 2, 0)
	join(t, f, 3, ExtensionsLevel)
	refused(1, upgrade, "is broker 2. ")
	refused(2, upgrade, "is 0 (off) or 1 (on)")
	refused(1, safeDowngrade, "by an upgrade")
	refused(0, upgrade, "by a downgrade")
	refused(1, 9, "Received unknown upgrade type.")
	if _, there := f.Dump()[znode.OwnPath]; there {
		t.Error("a node was written")
	}
	foreign.Close()
	before := n.Features().Epoch
	accepted(1, upgrade)
	accepted(1, upgrade)
	if got := n.data(znode.ExtensionsPath); got != `{"features":{"gregor.extensions":{"max_version_level":1}},"version":2,"status":1}` {
		t.Error(got)
	}
	if got := n.data(znode.FeaturePath); got != `{"features":{},"version":2,"status":1}` {
		t.Errorf("/feature %s", got)
	}
	on := n.Features()
	if on.Epoch <= before || on.Level("group.version") != 1 || on.Level("transaction.version") != 2 || on.Level(znode.Extensions) != 1 {
		t.Errorf("%+v after %d", on, before)
	}
	if resp := n.updateFeatures(updateFeaturesRequest(1, featureUpdate{"group.version", 0, 2, false})); resp.Results[0].ErrorCode != kerr.InvalidRequest.Code ||
		!strings.Contains(*resp.Results[0].ErrorMessage, "is a part of gregor.extensions") {
		t.Errorf("%+v", resp.Results)
	}

	// A broker that does not know it comes. It is named, and not thrown out.
	join(t, f, 4, 0)
	eventually(t, func() error {
		for _, e := range logs.FilterMessageSnippet("DOES NOT KNOW A SETTING").All() {
			if e.ContextMap()["broker"] == int32(4) && e.Level == zapcore.ErrorLevel {
				return nil
			}
		}
		return fmt.Errorf("no loud line: %v", logs.All())
	})

	// Off again.
	transport.set(0, map[string]string{"billing": "Stable", "away": "Empty", "audit": "Assigning"})
	refused(0, safeDowngrade, "have members: audit, billing. ")
	transport.set(kerr.CoordinatorLoadInProgress.Code, nil)
	refused(0, safeDowngrade, "does not tell its groups now")
	if n.Features().Epoch != on.Epoch {
		t.Error("the epoch has changed")
	}
	transport.set(0, map[string]string{"away": "Empty"})
	accepted(0, safeDowngrade)
	if off := n.Features(); off.Epoch <= on.Epoch || len(off.Levels) != 0 {
		t.Errorf("%+v after %+v", off, on)
	}
	refused(1, upgrade, "is broker 4. ")
}

// An unsafe downgrade asks nobody; UpdateFeatures v0 has its own way to ask for a safe one; validation changes nothing.
func TestExtensionsOff(t *testing.T) {
	f := storetest.NewFake(clock.System)
	n := start(t, f.Client(), marked, func(o *Options) {
		o.Transport = &grouped{Transport: o.Transport, groups: map[string]string{"g": "Stable"}}
	})
	n.setExtensions(1, upgrade)
	validate := updateFeaturesRequest(1, featureUpdate{znode.Extensions, 0, 3, false})
	validate.ValidateOnly = true
	if resp := n.updateFeatures(validate); resp.Results[0].ErrorCode != 0 || n.Features().Level(znode.Extensions) != 1 {
		t.Errorf("validating: %+v", resp.Results)
	}
	old := n.updateFeatures(updateFeaturesRequest(0, featureUpdate{znode.Extensions, 0, 0, true}))
	if old.Results[0].ErrorCode != kerr.InvalidRequest.Code || !strings.Contains(*old.Results[0].ErrorMessage, "have members: g") {
		t.Errorf("%+v", old.Results)
	}
	if code, words := n.setExtensions(0, unsafeDowngrade); code != 0 || n.Features().Level(znode.Extensions) != 0 {
		t.Errorf("%d %s", code, words)
	}
}

// startSecond starts a second broker with the mark.
func startSecond(t *testing.T, f *storetest.Fake) *node {
	t.Helper()
	return start(t, f.Client(), marked, func(o *Options) {
		o.Broker.ID = 2
		server := newReplicaServer(t, 2)
		o.Transport, o.Observer = server, server
	})
}

// Configurations of kinds that 3.9 does not know have a place of their own, of which only gregor's brokers hear.
func TestOwnConfigs(t *testing.T) {
	f := storetest.NewFake(clock.System)
	one := start(t, f.Client(), marked, func(o *Options) { o.Transport = &grouped{Transport: o.Transport} })
	two := startSecond(t, f)
	one.setExtensions(1, upgrade)
	const key = "consumer.session.timeout.ms"
	alter := func(n *node, values map[string]string) {
		t.Helper()
		done := make(chan error, 1)
		n.AlterConfigs(znode.Groups, "billing/a b", func(map[string]string) (map[string]string, error) { return values, nil }, false, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	reaches := func(n *node, want string) {
		t.Helper()
		eventually(t, func() error {
			if got := n.Configs(znode.Groups, "billing/a b")[key]; got != want {
				return fmt.Errorf("%q, want %q", got, want)
			}
			return nil
		})
	}
	for _, value := range []string{"50000", "51000", "", "52000"} {
		values := map[string]string{key: value}
		if value == "" {
			values = nil
		}
		alter(two, values)
		reaches(two, value)
		reaches(one, value)
	}
	if got := one.data(znode.OwnConfigPath + "/groups/billing%2Fa%20b"); got != `{"version":1,"config":{"consumer.session.timeout.ms":"52000"}}` {
		t.Error(got)
	}
	for path := range f.Dump() {
		if strings.HasPrefix(path, znode.ConfigChangePrefix) || path == "/config/groups" {
			t.Errorf("%s is there, which 3.9 would see", path)
		}
	}
	two.stop()
	two = startSecond(t, f)
	reaches(two, "52000")
}

// The setting outlives its controller and every broker; a broker follows it while another one rules; a broker that knows less does not
// start.
func TestExtensionsStay(t *testing.T) {
	f := storetest.NewFake(clock.System)
	one := start(t, f.Client(), marked, func(o *Options) { o.Transport = &grouped{Transport: o.Transport} })
	two := startSecond(t, f)
	if one.ActiveID() != 1 || two.ActiveID() != 1 {
		t.Fatal("another controller")
	}
	if resp := two.updateFeatures(updateFeaturesRequest(1, featureUpdate{znode.Extensions, 1, upgrade, false})); resp.ErrorCode != kerr.NotController.Code {
		t.Errorf("%d", resp.ErrorCode)
	}
	resp := one.updateFeatures(updateFeaturesRequest(1, featureUpdate{znode.Extensions, 1, upgrade, false}))
	if resp.ErrorCode != 0 || resp.Results[0].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	eventually(t, func() error {
		if a, b := one.Features(), two.Features(); b.Level("transaction.version") != 2 || a.Epoch != b.Epoch {
			return fmt.Errorf("%+v %+v", a, b)
		}
		return nil
	})
	one.stop()
	eventually(t, func() error {
		if two.ActiveID() != 2 {
			return fmt.Errorf("the controller is %d", two.ActiveID())
		}
		return nil
	})
	if two.Features().Level("group.version") != 1 {
		t.Error("it is off under the next controller")
	}
	two.stop()
	third := start(t, f.Client(), marked)
	if got := third.Features(); got.Level("group.version") != 1 || got.Epoch != 1 {
		t.Errorf("after a start %+v", got)
	}
	third.stop()
	if _, err := f.Client().Commit(t.Context(), store.Set(znode.ExtensionsPath,
		[]byte(`{"features":{"gregor.extensions":{"max_version_level":2}},"version":2,"status":1}`), store.AnyVersion)); err != nil {
		t.Fatal(err)
	}
	server := newReplicaServer(t, 1)
	err := New(Options{Store: f.Client(), Broker: brokerNode(1), ClusterID: "vddWK14PRI2hO83V7_zqFg", Transport: server, Observer: server,
		Configs: configRules{}, Clock: clock.System, Logger: testLogger(t), Settings: settings()}).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "start a newer gregor") {
		t.Error("a broker that knows less has started", err)
	}
}
