package controller

import (
	"errors"
	"fmt"
	"maps"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// This file is features of the cluster that are finalised at a level (KIP-584): read at start, changed by UpdateFeatures. On
// ZooKeeper there are none, as with 3.9, but what Extensions brings; without it they are those of Settings.Features, and the rules
// are 4.4's.

// Feature is a feature that this broker can serve at the levels 0, off, to Max.
type Feature struct {
	Name    string
	Max     int16
	Initial int16 // what a new cluster begins with
}

// Finalised are the features in force. Immutable.
type Finalised struct {
	Levels map[string]int16 // above 0
	Epoch  int64            // rises with each change; -1 while nothing is known
}

// Level returns the level of a feature, 0 if it is off.
func (f *Finalised) Level(name string) int16 { return f.Levels[name] }

// feature returns what this broker knows of a name.
func (s *Settings) feature(name string) (Feature, bool) {
	for _, f := range s.Features {
		if f.Name == name {
			return f, true
		}
	}
	return Feature{}, false
}

// takeFeatures takes what /feature holds, nil for nothing.
func (m *Machine) takeFeatures(levels map[string]int16, version int32) {
	m.features = &Finalised{Levels: levels, Epoch: int64(version)}
	m.notifyFeatures()
}

// notifyFeatures says what is in force.
func (m *Machine) notifyFeatures() {
	m.do(NotifyFeatures{m.extensions.features(m.features, m.o.Settings.Extensions)})
}

// foreign returns a feature in force that this broker cannot serve at its level, "" if there is none.
func (m *Machine) foreign(f znode.Feature) (string, int16) {
	if f.Status != znode.FeaturesEnabled {
		return "", 0
	}
	for name, level := range f.Features {
		if known, ok := m.o.Settings.feature(name); !ok || level < 0 || level > known.Max {
			return name, level
		}
	}
	return "", 0
}

// firstFeatures writes what a new cluster begins with, and calls again to read it back.
func (m *Machine) firstFeatures(again func()) {
	f := znode.Feature{Features: map[string]int16{}, Status: znode.FeaturesEnabled}
	for _, known := range m.o.Settings.Features {
		if known.Initial > 0 {
			f.Features[known.Name] = known.Initial
		}
	}
	txn := store.Txn{store.Create(znode.FeaturePath, f.Encode(), store.Persistent)}
	m.commit(inSession, []store.Txn{txn}, func(outcomes []store.Outcome) {
		if err := outcomes[0].Err; err != nil && store.FailedOp(err) < 0 {
			m.log.Warn("the metadata store did not take the first features; trying again", zap.Error(err))
			m.after(inSession, retryDelay, again)
			return
		}
		again()
	})
}

// featuresChanged reads /feature again.
func (m *Machine) featuresChanged() {
	m.read(always, datas(znode.FeaturePath), func(nodes []store.Node) {
		n := nodes[0]
		if !n.Exists {
			return
		}
		f, err := znode.DecodeFeature(n.Data)
		if err != nil {
			m.log.Error("the features in the metadata store cannot be read", zap.Error(err))
			return
		}
		if name, level := m.foreign(f); name != "" {
			m.log.Error("the cluster has finalised a feature that this broker does not have", zap.String("feature", name), zap.Int16("level", level))
		}
		m.takeFeatures(f.Features, n.Stat.Version)
	})
}

// updateFeatures serves UpdateFeatures. All updates of a request are carried out or none.
func (m *Machine) updateFeatures(r *kmsg.UpdateFeaturesRequest, done func(*kmsg.UpdateFeaturesResponse)) {
	resp := r.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	answer := func(err error) {
		if resp.ErrorCode = errcode.Of(err); err != nil {
			resp.ErrorMessage = errcode.Message(err)
		}
		m.do(Answer{resp, func() { done(resp) }})
	}
	switch {
	case !m.active():
		answer(errNotController)
	case !m.o.Settings.Embedded:
		m.updateOnZooKeeper(r, resp, func() { done(resp) })
	default:
		next, err := m.nextFeatures(r)
		if err != nil {
			answer(errcode.Newf(kerr.InvalidUpdateVersion, "The update failed for all features since the following feature had an error: %v", err))
			return
		}
		resp.Results = acceptedFeatures(r)
		if r.ValidateOnly || maps.Equal(next, m.features.Levels) {
			answer(nil)
			return
		}
		m.writeFeatures(next, answer)
	}
}

// writeFeatures finalises features.
func (m *Machine) writeFeatures(next map[string]int16, answer func(error)) {
	letGo := m.hold(func() { answer(errNotController) })
	data := znode.Feature{Features: next, Status: znode.FeaturesEnabled}.Encode()
	op := store.Set(znode.FeaturePath, data, int32(m.features.Epoch))
	m.command([]store.Txn{{op}}, func(outcomes []outcome) {
		letGo()
		if err := outcomes[0].err; err != nil {
			answer(errors.Join(kerr.FeatureUpdateFailed, err))
			return
		}
		m.log.Info("features were finalised", zap.Any("levels", next))
		m.takeFeatures(next, outcomes[0].results[0].Stat.Version)
		answer(nil)
	})
}

// nextFeatures is what the features become, or the first thing that forbids it.
// After org.apache.kafka.controller.FeatureControlManager.
func (m *Machine) nextFeatures(r *kmsg.UpdateFeaturesRequest) (map[string]int16, error) {
	next := maps.Clone(m.features.Levels)
	if next == nil {
		next = map[string]int16{}
	}
	for i := range r.FeatureUpdates {
		u := &r.FeatureUpdates[i]
		if reason := m.checkFeature(u, r.Version); reason != "" {
			return nil, fmt.Errorf("Invalid update version %d for feature %s. %s", u.MaxVersionLevel, u.Feature, reason) //nolint:staticcheck // Kafka's words
		}
		if u.MaxVersionLevel == 0 {
			delete(next, u.Feature)
		} else {
			next[u.Feature] = u.MaxVersionLevel
		}
	}
	return next, nil
}

// The types of an update (FeatureUpdate.UpgradeType). Version 0 of the request knows only the first, as 4.4 reads it.
const (
	upgrade         = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// checkFeature says why a feature cannot be finalised at a level, "" if it can.
func (m *Machine) checkFeature(u *kmsg.UpdateFeaturesRequestFeatureUpdate, version int16) string {
	kind := u.UpgradeType
	if version == 0 {
		kind = upgrade
	}
	known, ok := m.o.Settings.feature(u.Feature)
	switch now := m.features.Level(u.Feature); {
	case kind < upgrade || kind > unsafeDowngrade:
		return "The controller does not support the given upgrade type."
	case u.MaxVersionLevel < 0:
		return "A feature version cannot be less than 0."
	case !ok:
		return fmt.Sprintf("Local controller %d does not support this feature.", m.id)
	case u.MaxVersionLevel > known.Max:
		return fmt.Sprintf("Local controller %d only supports versions 0-%d", m.id, known.Max)
	case u.MaxVersionLevel < now && kind == upgrade:
		return "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
	case u.MaxVersionLevel > now && kind != upgrade:
		return "Can't downgrade to a newer version."
	}
	return ""
}

// acceptedFeatures are the results that versions 0 and 1 of the answer have.
func acceptedFeatures(r *kmsg.UpdateFeaturesRequest) []kmsg.UpdateFeaturesResponseResult {
	if r.Version >= 2 {
		return nil
	}
	results := make([]kmsg.UpdateFeaturesResponseResult, len(r.FeatureUpdates))
	none := "NONE"
	for i := range results {
		results[i].Feature, results[i].ErrorMessage = r.FeatureUpdates[i].Feature, &none
	}
	return results
}

// refusedFeatures is what 3.9 answers where no feature exists. After kafka.controller.KafkaController.validateFeatureUpdate.
func refusedFeatures(r *kmsg.UpdateFeaturesRequest) []kmsg.UpdateFeaturesResponseResult {
	results := make([]kmsg.UpdateFeaturesResponseResult, len(r.FeatureUpdates))
	for i := range results {
		u := &r.FeatureUpdates[i]
		kind := zooKeeperKind(u, r.Version)
		var reason string
		switch {
		case u.Feature == "":
			reason = "Feature name can not be empty."
		case kind < upgrade || kind > unsafeDowngrade:
			reason = "Received unknown upgrade type."
		case u.MaxVersionLevel < 1 && kind != upgrade:
			reason = "Can not delete non-existing finalized feature."
		case u.MaxVersionLevel < 1:
			reason = fmt.Sprintf("Can not provide versionLevel: %d less than 1 without setting the SAFE downgradeType in the request.", u.MaxVersionLevel)
		default:
			reason = "Could not apply finalized feature update because the provided feature is not supported."
		}
		results[i].Feature, results[i].ErrorCode, results[i].ErrorMessage = u.Feature, kerr.InvalidRequest.Code, &reason
	}
	return results
}
