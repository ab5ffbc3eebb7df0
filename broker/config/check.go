package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// check looks at keys together and derives what several of them say. Called once, before the snapshot is shared.
func (s *Snapshot) check() error {
	for _, one := range []func() error{s.checkRoles, s.checkIDs, s.checkLogs, s.checkLimits, s.checkGroups, s.buildListeners} {
		if err := one(); err != nil {
			return err
		}
	}
	return nil
}

const processRoles = "process.roles"

// checkRoles understands the settings of a KRaft process: this one is always broker and controller.
func (s *Snapshot) checkRoles() error {
	roles := asList(s.value(processRoles))
	switch {
	case len(roles) == 0:
		return nil
	case s.mode == Kafka39:
		return s.invalid(processRoles, "nothing beside zookeeper.connect: the broker is on ZooKeeper or it is not")
	case !slices.Contains(roles, "broker"):
		return s.invalid(processRoles, "broker,controller (a controller alone does not exist: the broker keeps its metadata itself)")
	}
	return nil
}

func (s *Snapshot) checkIDs() error {
	node, hasNode := s.value(nodeIDKey).(int64)
	broker := s.value(brokerIDKey).(int64)
	if hasNode && node != broker && node >= 0 {
		return s.invalid(nodeIDKey, "the same value as broker.id (%d)", broker)
	}
	highest := s.value("reserved.broker.max.id").(int64)
	if broker < -1 || s.mode == Kafka39 && broker > highest {
		return s.invalid(brokerIDKey, "greater than or equal to -1 and not greater than reserved.broker.max.id (%d)", highest)
	}
	return nil
}

func (s *Snapshot) checkLogs() error {
	if len(s.LogDirs()) == 0 {
		return s.invalid("log.dirs", "at least one directory, in log.dirs or log.dir")
	}
	for _, rule := range []struct {
		key     string
		ok      func(n int64) bool
		allowed string
	}{
		{"log.retention.ms", func(n int64) bool { return n != 0 }, "-1 (unlimited) or at least 1"},
		{"log.roll.ms", func(n int64) bool { return n >= 1 }, "at least 1"},
		{"log.roll.jitter.ms", func(n int64) bool { return n >= 0 }, "at least 0"},
	} {
		k := brokerTable.byName[rule.key]
		if n, ok := s.resolved(k).(int64); ok && !rule.ok(n) {
			return s.invalid(s.decider(k).Name, "%s", rule.allowed)
		}
	}
	if err := s.checkReplicas(); err != nil {
		return err
	}
	const dedupe = "log.cleaner.dedupe.buffer.size"
	if s.value(dedupe).(int64) < 1<<20 {
		return s.invalid(dedupe, "at least 1 MiB (1048576)")
	}
	codec := s.value("offsets.topic.compression.codec").(int64)
	if codec < 0 || codec > 4 {
		return s.invalid("offsets.topic.compression.codec", "0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)")
	}
	return nil
}

// checkReplicas: a follower's fetch that waits must not look like one that lags, or like one that gets no answer. After
// KafkaConfig.validateValues.
func (s *Snapshot) checkReplicas() error {
	const wait = "replica.fetch.wait.max.ms"
	for _, key := range []string{"replica.socket.timeout.ms", "replica.lag.time.max.ms"} {
		if n := s.limit(key); s.limit(wait) > n {
			return s.invalid(wait, "at most %s (%d)", key, n)
		}
	}
	return nil
}

// decider is the key that gives a resolved value: k or one of its synonyms.
func (s *Snapshot) decider(k *Key) *Key {
	for _, one := range append([]*Key{k}, k.synonyms...) {
		if s.values[one.index] != nil {
			return one
		}
	}
	return k
}

// checkDynamic is check for what can change while the broker runs.
func (s *Snapshot) checkDynamic() error {
	if err := s.checkLogs(); err != nil {
		return err
	}
	if err := s.checkConsumerTimes(); err != nil {
		return err
	}
	return s.checkLimits()
}

func (s *Snapshot) checkLimits() error {
	budget, largest := s.value("queued.max.request.bytes").(int64), s.value("socket.request.max.bytes").(int64)
	if budget > 0 && budget < largest {
		return s.invalid("queued.max.request.bytes", "at least socket.request.max.bytes (%d), or no limit (-1)", largest)
	}
	const overrides = "max.connections.per.ip.overrides"
	s.perIP = map[string]int{}
	for _, item := range asList(s.value(overrides)) {
		i := strings.LastIndexByte(item, ':')
		if i < 0 {
			return s.invalid(overrides, "host:limit, comma-separated")
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(item[i+1:]), 10, 32)
		if err != nil || limit < 0 {
			return s.invalid(overrides, "host:limit, comma-separated (%q is no limit)", item[i+1:])
		}
		addrs, err := net.LookupHost(strings.Trim(strings.TrimSpace(item[:i]), "[]"))
		if err != nil {
			return s.invalid(overrides, "hosts that are addresses or have one (%q has not)", item[:i])
		}
		for _, addr := range addrs {
			s.perIP[addr] = int(limit)
		}
	}
	if s.value("max.connections.per.ip").(int64) == 0 && len(s.perIP) == 0 {
		return s.invalid("max.connections.per.ip", "zero only if max.connections.per.ip.overrides is set")
	}
	return nil
}

func (s *Snapshot) checkGroups() error {
	const protocols = "group.coordinator.rebalance.protocols"
	if list := asList(s.value(protocols)); !slices.Contains(list, "classic") {
		return s.invalid(protocols, "a list with classic in it (disabling the 'classic' protocol is not supported)")
	}
	return s.checkConsumerTimes()
}

// checkConsumerTimes: what groups of the consumer protocol go by lies within what a group may ask for. After
// GroupCoordinatorConfig.verifyConsumerGroupConfigs.
func (s *Snapshot) checkConsumerTimes() error {
	for _, name := range []string{"heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"} {
		key, least, most := "group.consumer."+name, "group.consumer.min."+name, "group.consumer.max."+name
		if !brokerTable.byName[key].in(s.mode) {
			continue
		}
		n := s.limit(key)
		switch {
		case s.limit(most) < s.limit(least):
			return s.invalid(most, "at least %s (%d)", least, s.limit(least))
		case n < s.limit(least):
			return s.invalid(key, "at least %s (%d)", least, s.limit(least))
		case n > s.limit(most):
			return s.invalid(key, "at most %s (%d)", most, s.limit(most))
		}
	}
	const heartbeat, session = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
	if s.limit(heartbeat) >= s.limit(session) {
		return s.invalid(heartbeat, "less than %s (%d)", session, s.limit(session))
	}
	return nil
}

// remarks are notices about values that are allowed but may not mean what their writer thinks.
func (s *Snapshot) remarks() []Notice {
	var notices []Notice
	roles := asList(s.value(processRoles))
	if len(roles) > 0 && !slices.Contains(roles, "controller") {
		notices = append(notices, Notice{Key: processRoles, Warn: true,
			Text: "process.roles=broker: this broker joins no KRaft controllers; it stands alone and keeps its metadata itself"})
	}
	if voters := asList(s.value("controller.quorum.voters")); len(voters) > 1 {
		notices = append(notices, Notice{Key: "controller.quorum.voters", Warn: true,
			Text: "controller.quorum.voters names several controllers; this broker joins none of them and stands alone"})
	}
	return notices
}
