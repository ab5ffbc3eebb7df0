package controller

import (
	"maps"
	"testing"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type featureUpdate struct {
	name  string
	level int16
	kind  int8
	down  bool
}

func updateFeaturesRequest(version int16, updates ...featureUpdate) *kmsg.UpdateFeaturesRequest {
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.Version = version
	for _, u := range updates {
		f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		f.Feature, f.MaxVersionLevel, f.UpgradeType, f.AllowDowngrade = u.name, u.level, u.kind, u.down
		r.FeatureUpdates = append(r.FeatureUpdates, f)
	}
	return r
}

func (n *node) updateFeatures(r *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	answered := make(chan *kmsg.UpdateFeaturesResponse, 1)
	n.UpdateFeatures(r, func(resp *kmsg.UpdateFeaturesResponse) { answered <- resp })
	return <-answered
}

func withFeatures(o *Options) {
	o.Settings.Embedded = true
	o.Settings.Features = []Feature{{Name: "transaction.version", Max: 2, Initial: 2}, {Name: "later.version", Max: 1}}
}

// What 4.4.0 answers, asked one after the other; level is what transaction.version is afterwards.
func TestUpdateFeatures(t *testing.T) {
	const (
		prefix    = "The update failed for all features since the following feature had an error: Invalid update version "
		downgrade = " for feature transaction.version. Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
		nope      = "1 for feature nope. Local controller 1 does not support this feature."
		tv        = "transaction.version"
	)
	f := storetest.NewFake(clock.System)
	n := start(t, f.Client(), withFeatures)
	epoch := n.Features().Epoch
	for i, c := range []struct {
		version int16
		updates []featureUpdate
		refusal string
		level   int16
	}{
		{0, []featureUpdate{{"nope", 1, 1, false}}, nope, 2},
		{2, []featureUpdate{{"nope", 0, 2, false}}, "0 for feature nope. Local controller 1 does not support this feature.", 2},
		{0, []featureUpdate{{tv, 3, 1, false}}, "3 for feature transaction.version. Local controller 1 only supports versions 0-2", 2},
		{0, []featureUpdate{{tv, -1, 1, false}}, "-1 for feature transaction.version. A feature version cannot be less than 0.", 2},
		{0, []featureUpdate{{tv, 1, 2, true}}, "1" + downgrade, 2},
		{0, []featureUpdate{{tv, 2, 7, true}}, "", 2},
		{1, []featureUpdate{{tv, 1, 1, false}}, "1" + downgrade, 2},
		{1, []featureUpdate{{tv, 2, 7, false}}, "2 for feature transaction.version. The controller does not support the given upgrade type.", 2},
		{1, []featureUpdate{{tv, 1, 2, true}}, "", 1},
		{1, []featureUpdate{{tv, 2, 2, true}}, "2 for feature transaction.version. Can't downgrade to a newer version.", 1},
		{1, []featureUpdate{{tv, 2, 1, false}, {"nope", 1, 1, false}}, nope, 1},
		{1, []featureUpdate{{tv, 0, 3, true}}, "", 0},
		{2, []featureUpdate{{"", 2, 1, false}}, "2 for feature . Local controller 1 does not support this feature.", 0},
		{2, []featureUpdate{{tv, 2, 1, false}, {tv, 1, 1, false}}, "", 1},
		{2, nil, "", 1},
		{2, []featureUpdate{{"later.version", 1, 1, false}}, "", 1},
	} {
		before := n.Features()
		resp := n.updateFeatures(updateFeaturesRequest(c.version, c.updates...))
		if c.refusal == "" {
			if resp.ErrorCode != 0 || resp.ErrorMessage != nil || c.version < 2 && len(resp.Results) != len(c.updates) {
				t.Errorf("%d: %d, %d results", i, resp.ErrorCode, len(resp.Results))
			}
		} else if resp.ErrorCode != kerr.InvalidUpdateVersion.Code || *resp.ErrorMessage != prefix+c.refusal || len(resp.Results) > 0 {
			t.Errorf("%d: %d %q, want %q", i, resp.ErrorCode, *resp.ErrorMessage, prefix+c.refusal)
		}
		now := n.Features()
		if now.Level(tv) != c.level {
			t.Errorf("%d: level %d, want %d", i, now.Level(tv), c.level)
		}
		if changed := !maps.Equal(before.Levels, now.Levels); changed && now.Epoch <= before.Epoch || !changed && now.Epoch != before.Epoch {
			t.Errorf("%d: epoch %d after %d", i, now.Epoch, before.Epoch)
		}
	}
	if n.Features().Epoch <= epoch {
		t.Error("the epoch has not risen")
	}
	validate := updateFeaturesRequest(2, featureUpdate{tv, 2, 1, false})
	validate.ValidateOnly = true
	if resp := n.updateFeatures(validate); resp.ErrorCode != 0 || n.Features().Level(tv) != 1 {
		t.Errorf("validating: %d, level %d", resp.ErrorCode, n.Features().Level(tv))
	}
}

// What was finalised is in force after a start, a new version of the broker with more features changes nothing by itself, and one
// without them does not start.
func TestFeaturesStay(t *testing.T) {
	f := storetest.NewFake(clock.System)
	n := start(t, f.Client(), withFeatures)
	if got := n.Features(); got.Epoch != 0 || got.Level("transaction.version") != 2 || len(got.Levels) != 1 {
		t.Errorf("at first %+v", got)
	}
	n.updateFeatures(updateFeaturesRequest(1, featureUpdate{"transaction.version", 1, 2, false}))
	n.stop()
	n = start(t, f.Client(), withFeatures, func(o *Options) {
		o.Settings.Features = append(o.Settings.Features, Feature{Name: "new.version", Max: 1, Initial: 1})
	})
	if got := n.Features(); got.Epoch != 1 || got.Level("transaction.version") != 1 || len(got.Levels) != 1 {
		t.Errorf("after a start %+v", got)
	}
	n.stop()
	server := newReplicaServer(t, 1)
	o := Options{Store: f.Client(), Broker: brokerNode(1), ClusterID: "vddWK14PRI2hO83V7_zqFg", Transport: server, Observer: server, Configs: configRules{},
		Clock: clock.System, Logger: testLogger(t), Settings: settings()}
	o.Settings.Embedded = true
	if err := New(o).Start(t.Context()); err == nil {
		t.Error("a broker without the feature has started")
	}
}

// On ZooKeeper there are no features, and each update is refused in 3.9's words.
func TestUpdateFeaturesOnZooKeeper(t *testing.T) {
	f := storetest.NewFake(clock.System)
	n := start(t, f.Client())
	made := make(chan struct{}, 1)
	defer n.store.Watch(znode.FeaturePath, store.Data, func() {
		select {
		case made <- struct{}{}:
		default:
		}
	})()
	for n.data(znode.FeaturePath) == "<none>" { // a controller makes it while it loads the rest
		<-made
	}
	for _, c := range []struct {
		version int16
		update  featureUpdate
		want    string
	}{
		{1, featureUpdate{"", 1, 1, false}, "Feature name can not be empty."},
		{1, featureUpdate{"x", 1, 9, false}, "Received unknown upgrade type."},
		{1, featureUpdate{"x", 0, 2, false}, "Can not delete non-existing finalized feature."},
		{0, featureUpdate{"x", 0, 1, true}, "Can not delete non-existing finalized feature."},
		{0, featureUpdate{"x", 0, 9, false}, "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request."},
		{1, featureUpdate{"metadata.version", 7, 1, false}, "Could not apply finalized feature update because the provided feature is not supported."},
	} {
		resp := n.updateFeatures(updateFeaturesRequest(c.version, c.update))
		if resp.ErrorCode != 0 || len(resp.Results) != 1 || resp.Results[0].ErrorCode != kerr.InvalidRequest.Code || *resp.Results[0].ErrorMessage != c.want {
			t.Errorf("%+v: %d %+v", c.update, resp.ErrorCode, resp.Results)
		}
	}
	if got := n.data(znode.FeaturePath); got != `{"features":{},"version":2,"status":1}` {
		t.Error(got)
	}
}
