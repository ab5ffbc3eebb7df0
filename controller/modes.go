package controller

import (
	"fmt"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file refuses clusters that this broker cannot be part of: those with finalised features (KIP-584) that it does not have,
// and those on their way to KRaft (KIP-866).

// checkModes looks for signs of either before the broker registers, and takes the features that are in force.
func (m *Machine) checkModes(then func()) {
	m.read(inSession, datas(znode.FeaturePath, znode.MigrationPath, znode.ExtensionsPath), func(nodes []store.Node) {
		feature, migration := nodes[0], nodes[1]
		x, err := decodeExtensions(nodes[2])
		if err != nil {
			m.fail(fmt.Errorf("%s in the metadata store: %w: start a newer gregor, or switch it off", znode.ExtensionsPath, err))
			return
		}
		if m.extensions = x; x.version >= 0 {
			m.notifyFeatures()
		}
		if !feature.Exists && m.o.Settings.Embedded {
			m.firstFeatures(func() { m.checkModes(then) })
			return
		}
		if feature.Exists {
			f, err := znode.DecodeFeature(feature.Data)
			if err != nil {
				m.fail(fmt.Errorf("%s in the metadata store: %w", feature.Path, err))
				return
			}
			if name, level := m.foreign(f); name != "" {
				m.fail(fmt.Errorf("the cluster has finalised the feature %s at level %d (%s in the metadata store), which this broker does not "+
					"have: it cannot take part", name, level, feature.Path))
				return
			}
			m.takeFeatures(f.Features, feature.Stat.Version)
		}
		if migration.Exists {
			if id, err := znode.DecodeMigration(migration.Data); err != nil || id >= 0 {
				m.fail(fmt.Errorf("the cluster is being migrated to KRaft, by controller %d (%s in the metadata store): this broker cannot take "+
					"part; go back to ZooKeeper mode first, or leave the broker out", id, migration.Path))
				return
			}
		}
		then()
	})
}

// setUpFeatures writes the node that says that features are in use, and none of them finalised, as every controller from 2.7 on does.
func (m *Machine) setUpFeatures() {
	m.read(inReign, datas(znode.FeaturePath), func(nodes []store.Node) {
		n := nodes[0]
		f := znode.Feature{Version: m.o.Settings.protocol().FeatureNode, Status: znode.FeaturesEnabled}
		op := store.Create(n.Path, f.Encode(), store.Persistent)
		if n.Exists {
			now, err := znode.DecodeFeature(n.Data)
			if err != nil || now.Status == znode.FeaturesEnabled && now.Version == f.Version {
				return
			}
			if now.Status == znode.FeaturesEnabled {
				f.Features = now.Features
			}
			op = store.Set(n.Path, f.Encode(), n.Stat.Version)
		}
		m.command([]store.Txn{{op}}, func(outcomes []outcome) {
			if err := outcomes[0].err; err != nil {
				m.log.Warn("the features' node could not be written", zap.Error(err))
			}
		})
	})
}
