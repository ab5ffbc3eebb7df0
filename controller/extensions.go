package controller

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// This file is the one setting that lets a cluster on ZooKeeper have more than Apache Kafka 3.9 has (docs/adr/005). It stands in a node
// of its own, which 3.9 does not look at; it is switched like a feature, by UpdateFeatures, and refused unless every registered broker
// says that it knows it.

// Extensions is the setting's name.
const Extensions = znode.Extensions

// ExtensionsLevel is the level of the setting that this broker can serve: on. 0 is off.
const ExtensionsLevel = 1

// extensions is what this broker knows of the setting.
type extensions struct {
	on      bool
	version int32 // of the node, -1: there is none
}

// decodeExtensions reads the setting's node. An error says that it is of a gregor that knows more.
func decodeExtensions(n store.Node) (extensions, error) {
	x := extensions{version: -1}
	if !n.Exists {
		return x, nil
	}
	x.version = n.Stat.Version
	f, err := znode.DecodeFeature(n.Data)
	if err != nil {
		return x, err
	}
	for name, level := range f.Features {
		if name != znode.Extensions || level > ExtensionsLevel {
			return x, fmt.Errorf("%s is switched on at level %d, and this broker knows no more than %s at level %d", name, level, znode.Extensions, ExtensionsLevel)
		}
		x.on = level > 0
	}
	return x, nil
}

// features is what is in force with the setting: what /feature holds and, while it is on, what it brings. The epoch rises with a change
// of either node, as clients go by the highest that they have seen.
func (x extensions) features(finalised *Finalised, brings []Feature) *Finalised {
	if x.version < 0 {
		return finalised
	}
	f := &Finalised{Levels: maps.Clone(finalised.Levels), Epoch: finalised.Epoch + int64(x.version) + 1}
	if !x.on {
		return f
	}
	if f.Levels == nil {
		f.Levels = map[string]int16{}
	}
	f.Levels[znode.Extensions] = ExtensionsLevel
	for _, b := range brings {
		f.Levels[b.Name] = b.Initial
	}
	return f
}

// takeExtensions takes what the setting's node holds.
func (m *Machine) takeExtensions(x extensions) {
	changed := x.on != m.extensions.on
	m.extensions = x
	m.notifyFeatures()
	if !changed {
		return
	}
	m.log.Info("a setting of the cluster is now different", zap.String("setting", znode.Extensions), zap.Bool("on", x.on))
	if m.reign != nil && x.on {
		m.readRegistrations(func(nodes []store.Node) { // who came between the question and the answer
			for _, n := range nodes {
				if b := m.decodeBroker(n); b != nil {
					m.warnUnmarked(b)
				}
			}
		})
	}
}

// extensionsChanged reads the setting again.
func (m *Machine) extensionsChanged() {
	m.read(always, datas(znode.ExtensionsPath), func(nodes []store.Node) {
		x, err := decodeExtensions(nodes[0])
		if err != nil {
			m.log.Error("a setting of the cluster is more than this broker knows; it is to be replaced by a newer one",
				zap.String("path", znode.ExtensionsPath), zap.Error(err))
			x.on = x.on || m.extensions.on
		}
		if !nodes[0].Exists {
			x.version = m.extensions.version // somebody removed it: off, and the epoch stays
		}
		if x.version >= m.extensions.version {
			m.takeExtensions(x)
		}
	})
}

// updateOnZooKeeper serves UpdateFeatures where only the setting can be changed: other features are refused as 3.9 does.
func (m *Machine) updateOnZooKeeper(r *kmsg.UpdateFeaturesRequest, resp *kmsg.UpdateFeaturesResponse, done func()) {
	r.FeatureUpdates = once(r.FeatureUpdates, func(u *kmsg.UpdateFeaturesRequestFeatureUpdate) string { return u.Feature })
	resp.Results = refusedFeatures(r)
	q := m.newRequest(len(resp.Results), r.TimeoutMillis, func(i int, code int16, message *string) {
		if code == kerr.NotController.Code {
			resp.ErrorCode = code
		}
		resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = code, message
	}, func(m *Machine) { m.do(Answer{resp, done}) })
	for i := range r.FeatureUpdates {
		u := &r.FeatureUpdates[i]
		kind := zooKeeperKind(u, r.Version)
		switch refusal := resp.Results[i].ErrorMessage; {
		case u.Feature == znode.Extensions:
			m.switchExtensions(u.MaxVersionLevel, kind, r.ValidateOnly, func(err error) { q.result(m, i, err) })
		case m.brought(u.Feature):
			q.result(m, i, errcode.Newf(kerr.InvalidRequest, "In a cluster on ZooKeeper %s is a part of %s, which is switched as a whole.", u.Feature, znode.Extensions))
		default:
			q.result(m, i, errcode.New(kerr.InvalidRequest, *refusal))
		}
	}
	q.begin(m, r.TimeoutMillis)
}

// brought says whether the setting is on and brings a feature.
func (m *Machine) brought(name string) bool {
	return m.extensions.on && slices.ContainsFunc(m.o.Settings.Extensions, func(f Feature) bool { return f.Name == name })
}

// switchExtensions switches the setting. done is not called when the reign ends before.
func (m *Machine) switchExtensions(level int16, kind int8, validateOnly bool, done func(error)) {
	refuse := func(format string, args ...any) { done(errcode.Newf(kerr.InvalidRequest, format, args...)) }
	write := func(err error) {
		if err != nil || validateOnly {
			done(err)
			return
		}
		m.writeExtensions(level, done)
	}
	switch {
	case kind < upgrade || kind > unsafeDowngrade:
		refuse("Received unknown upgrade type.")
	case level < 0 || level > ExtensionsLevel:
		refuse("%s is 0 (off) or %d (on).", znode.Extensions, ExtensionsLevel)
	case level > 0 && kind != upgrade:
		refuse("%s is switched on by an upgrade.", znode.Extensions)
	case level == 0 && kind == upgrade:
		refuse("%s is switched off by a downgrade.", znode.Extensions)
	case level > 0:
		m.checkMarked(write)
	case kind == unsafeDowngrade || !m.extensions.on:
		write(nil)
	default:
		m.checkGroups(write)
	}
}

// zooKeeperKind is the type of an update as 3.9 reads it.
func zooKeeperKind(u *kmsg.UpdateFeaturesRequestFeatureUpdate, version int16) int8 {
	switch {
	case version > 0:
		return u.UpgradeType
	case u.AllowDowngrade:
		return safeDowngrade
	}
	return upgrade
}

// checkMarked refuses unless every broker that is registered right now knows the setting.
func (m *Machine) checkMarked(done func(error)) {
	m.readRegistrations(func(nodes []store.Node) {
		var without []string
		for _, n := range nodes {
			if b := m.decodeBroker(n); n.Exists && (b == nil || b.Extensions < ExtensionsLevel) {
				without = append(without, path.Base(n.Path))
			}
		}
		if len(without) == 0 {
			m.warnOfAbsent()
			done(nil)
			return
		}
		done(errcode.Newf(kerr.InvalidRequest, "%s is not switched on, because not every broker of the cluster can serve it: registered without "+
			"the mark of it %s. Apache Kafka 3.9 cannot read what is stored of consumer protocol groups. Replace or stop what lacks the mark first.",
			znode.Extensions, brokerList(without)))
	})
}

// brokerList names brokers in words.
func brokerList(ids []string) string {
	if len(ids) == 1 {
		return "is broker " + ids[0]
	}
	return "are brokers " + strings.Join(ids, ", ")
}

// warnOfAbsent names the brokers that have replicas and are away: what they are nobody knows before they return.
func (m *Machine) warnOfAbsent() {
	absent := map[int32]bool{}
	for _, x := range m.reign.allRefs() {
		for _, id := range x.part().replicas {
			if m.reign.brokers[id] == nil {
				absent[id] = true
			}
		}
	}
	if len(absent) > 0 {
		m.log.Warn("brokers that are away have replicas; whether they know the setting is seen when they return",
			zap.String("setting", znode.Extensions), zap.Int32s("brokers", slices.Sorted(maps.Keys(absent))))
	}
}

// warnUnmarked says loudly that a registered broker does not know the setting while it is on.
func (m *Machine) warnUnmarked(b *broker) {
	if m.extensions.on && b.Extensions < ExtensionsLevel {
		m.log.Error("A BROKER THAT DOES NOT KNOW A SETTING OF THIS CLUSTER HAS JOINED IT: it cannot read what is stored of consumer protocol groups, "+
			"and transactions of version 2 fail on it. Stop it, or switch the setting off", zap.Int32("broker", b.ID), zap.String("setting", znode.Extensions))
	}
}

// checkGroups refuses while groups of the consumer protocol have members, which could not go on. Each broker is asked for those that it
// coordinates.
func (m *Machine) checkGroups(done func(error)) {
	if t := m.reign.topics[OffsetsTopicName]; t != nil {
		for p := range t.parts {
			if t.parts[p].leader < 0 {
				done(errcode.Newf(kerr.InvalidRequest, "Partition %s-%d has no leader, so nobody knows the groups in it.", t.name, p))
				return
			}
		}
	}
	ids := m.reign.brokerIDs()
	left, members := len(ids), []string(nil)
	var problem error
	for _, id := range ids {
		m.askGroups(id, func(groups []string, err error) {
			members = append(members, groups...)
			if err != nil {
				problem = err
			}
			if left--; left > 0 {
				return
			}
			if problem == nil && len(members) > 0 {
				problem = errcode.Newf(kerr.InvalidRequest, "%s is not switched off, because groups of the consumer protocol have members: %s. "+
					"Stop them, or restart them with group.protocol=classic one by one. An unsafe downgrade throws them out.", znode.Extensions, shortList(members))
			}
			done(problem)
		})
	}
}

// shortList names some groups.
func shortList(names []string) string {
	const most = 10
	slices.Sort(names)
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}

// askGroups asks a broker which groups of the consumer protocol it coordinates that have members.
func (m *Machine) askGroups(id int32, done func(groups []string, err error)) {
	r := kmsg.NewPtrListGroupsRequest()
	r.Version, r.TypesFilter = 5, []string{"consumer"}
	unknown := errcode.Newf(kerr.InvalidRequest, "Broker %d does not tell its groups now; try again.", id)
	m.do(Send{m.expect(inReign, func(e Event) {
		answer, ok := e.(SendDone).Response.(*kmsg.ListGroupsResponse)
		if !ok || answer.ErrorCode != 0 {
			done(nil, unknown)
			return
		}
		var groups []string
		for _, g := range answer.Groups {
			if g.GroupState != "Empty" {
				groups = append(groups, g.Group)
			}
		}
		done(groups, nil)
	}), id, r})
}

// writeExtensions writes the setting, and what stands above it the first time.
func (m *Machine) writeExtensions(level int16, done func(error)) {
	paths := []string{znode.OwnPath, znode.OwnConfigPath}
	for _, kind := range znode.EmbeddedConfigKinds {
		paths = append(paths, znode.OwnConfigPath+"/"+kind)
	}
	m.read(inReign, datas(append(paths, znode.ExtensionsPath)...), func(nodes []store.Node) {
		f := znode.Feature{Features: map[string]int16{}, Status: znode.FeaturesEnabled}
		if level > 0 {
			f.Features[znode.Extensions] = level
		}
		var txn store.Txn
		for _, n := range nodes[:len(paths)] {
			if !n.Exists {
				txn = append(txn, store.Create(n.Path, nil, store.Persistent))
			}
		}
		n := nodes[len(paths)]
		if x, err := decodeExtensions(n); err == nil && x.on == (level > 0) {
			m.takeExtensions(x)
			done(nil)
			return
		}
		if n.Exists {
			txn = append(txn, store.Set(n.Path, f.Encode(), n.Stat.Version))
		} else {
			txn = append(txn, store.Create(n.Path, f.Encode(), store.Persistent))
		}
		m.command([]store.Txn{txn}, func(outcomes []outcome) {
			if err := outcomes[0].err; err != nil {
				m.log.Warn("a setting of the cluster could not be written", zap.String("setting", znode.Extensions), zap.Error(err))
				done(errcode.Newf(kerr.FeatureUpdateFailed, "%s could not be written: %v", znode.Extensions, err))
				return
			}
			results := outcomes[0].results
			m.takeExtensions(extensions{on: level > 0, version: results[len(results)-1].Stat.Version})
			done(nil)
		})
	})
}
