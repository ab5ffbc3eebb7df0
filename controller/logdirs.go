package controller

import (
	"slices"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"go.uber.org/zap"
)

// This file serves brokers that lose a log directory. Such a broker adds a node below /log_dir_event_notification; it is then told
// all its replicas again, and those that it answers with KAFKA_STORAGE_ERROR are offline (statesAnswered), until it starts again.
// After kafka.controller.KafkaController.processLogDirEventNotification.

// logDirsChanged reads the notifications.
func (m *Machine) logDirsChanged() {
	m.read(inReign, childrens(znode.LogDirEventsPath), func(nodes []store.Node) {
		if !m.reign.loaded || len(nodes[0].Children) == 0 {
			return
		}
		var paths []string
		for _, name := range sortedChildren(nodes[0]) {
			paths = append(paths, znode.LogDirEventsPath+"/"+name)
		}
		m.read(inReign, datas(paths...), func(nodes []store.Node) {
			var ids []int32
			for _, n := range nodes {
				id, err := znode.DecodeLogDirEvent(n.Data)
				if err != nil {
					m.log.Error("a notification of a lost log directory cannot be read", zap.String("path", n.Path), zap.Error(err))
				} else if n.Exists && !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
			m.askForReplicas(ids)
			m.deleteNotifications(paths)
		})
	})
}

// askForReplicas tells brokers all their replicas, to learn which of them are left.
func (m *Machine) askForReplicas(ids []int32) {
	m.log.Info("brokers have lost log directories", zap.Int32s("brokers", ids))
	for _, x := range m.reign.onBrokers(ids) {
		for _, id := range ids {
			if slices.Contains(x.assigned().replicas, id) {
				m.orderStateOf(x, id, false)
			}
		}
	}
}

// deleteNotifications removes notifications that have been read. One that is left is read again, which does no harm.
func (m *Machine) deleteNotifications(paths []string) {
	var txns []store.Txn
	for _, path := range paths {
		txns = append(txns, store.Txn{store.Delete(path, store.AnyVersion)})
	}
	if len(txns) > 0 {
		m.command(txns, func([]outcome) {})
	}
}

// dropNotifications removes what an earlier controller was told: a new one reads and tells everything anyway.
func (m *Machine) dropNotifications() {
	m.read(inReign, childrens(znode.LogDirEventsPath, znode.ISRChangesPath), func(nodes []store.Node) {
		var paths []string
		for _, n := range nodes {
			for _, name := range sortedChildren(n) {
				paths = append(paths, n.Path+"/"+name)
			}
		}
		m.deleteNotifications(paths)
	})
}
