package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
)

// tries is how often a read is followed by a write that somebody else may have got ahead of.
const tries = 10

// ClusterID returns the id of the cluster that lives in s. A cluster that has none yet gets proposed.
func ClusterID(ctx context.Context, s store.Store, proposed string) (string, error) {
	for range tries {
		nodes, err := s.Read(ctx, store.Req{Path: znode.ClusterIDPath})
		if err != nil {
			return "", err
		}
		if nodes[0].Exists {
			return znode.DecodeClusterID(nodes[0].Data)
		}
		if err := ensure(ctx, s, "/cluster"); err != nil {
			return "", err
		}
		_, err = s.Commit(ctx, store.Create(znode.ClusterIDPath, znode.EncodeClusterID(proposed), store.Persistent))
		if err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrUnknown) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s could neither be read nor written", znode.ClusterIDPath)
}

// GenerateBrokerID returns an id above reserved that no other broker was given: the version of a node counts them
// (KafkaZkClient.generateBrokerSequenceId). A reply that was lost costs a number, no more.
func GenerateBrokerID(ctx context.Context, s store.Store, reserved int32) (int32, error) {
	if err := ensure(ctx, s, "/brokers", znode.BrokerSeqIDPath); err != nil {
		return -1, err
	}
	for range tries {
		results, err := s.Commit(ctx, store.Set(znode.BrokerSeqIDPath, nil, store.AnyVersion))
		switch {
		case err == nil:
			return reserved + results[0].Stat.Version, nil
		case !errors.Is(err, store.ErrUnknown):
			return -1, err
		}
	}
	return -1, fmt.Errorf("%s could not be written", znode.BrokerSeqIDPath)
}

// CheckEndpoints refuses a broker that would tell clients an address at which they find another one, in Kafka's words
// (kafka.server.KafkaServer.createBrokerInfo).
func CheckEndpoints(ctx context.Context, s store.Store, b znode.Broker) error {
	nodes, err := s.Read(ctx, store.Req{Path: znode.BrokerIDsPath, Kind: store.Children})
	if err != nil {
		return err
	}
	var others []string
	for _, name := range nodes[0].Children {
		if path := znode.BrokerIDsPath + "/" + name; path != znode.BrokerPath(b.ID) {
			others = append(others, path)
		}
	}
	if nodes, err = s.Read(ctx, datas(others...)...); err != nil {
		return err
	}
	for _, n := range nodes {
		id := strings.TrimPrefix(n.Path, znode.BrokerIDsPath+"/")
		other, err := znode.DecodeBroker(-1, n.Data)
		if !n.Exists || err != nil {
			continue // it went just now, or nobody finds its addresses
		}
		var common []string
		for _, e := range b.Endpoints {
			if slices.ContainsFunc(other.Endpoints, func(o znode.Endpoint) bool { return o.Host == e.Host && o.Port == e.Port }) {
				common = append(common, net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
			}
		}
		if len(common) > 0 {
			return fmt.Errorf("Configured end points %s in advertised listeners are already registered by broker %s", strings.Join(common, ","), id)
		}
	}
	return nil
}

// TopicPartitions returns how many partitions each topic has of the cluster in s, without topics that are being deleted or
// whose node cannot be read. The nodes of topics in known are not read again: for these it returns what is there.
func TopicPartitions(ctx context.Context, s store.Store, known map[string]int) (map[string]int, error) {
	nodes, err := s.Read(ctx, store.Req{Path: znode.DeleteTopicsPath, Kind: store.Children},
		store.Req{Path: znode.TopicsPath, Kind: store.Children})
	if err != nil {
		return nil, err
	}
	marked := make(map[string]bool, len(nodes[0].Children))
	for _, name := range nodes[0].Children {
		marked[name] = true
	}
	topics := make(map[string]int, len(nodes[1].Children))
	var names, paths []string
	for _, name := range nodes[1].Children {
		if n, ok := known[name]; ok && !marked[name] {
			topics[name] = n
		} else if !marked[name] {
			names, paths = append(names, name), append(paths, znode.TopicPath(name))
		}
	}
	if nodes, err = s.Read(ctx, datas(paths...)...); err != nil {
		return nil, err
	}
	for i, n := range nodes {
		if t, err := znode.DecodeTopic(n.Data); n.Exists && err == nil && ValidTopicName(names[i]) == nil {
			topics[names[i]] = len(t.Replicas)
		}
	}
	return topics, nil
}

// ensure makes the nodes at paths, each one's parent before it, where they are missing.
func ensure(ctx context.Context, s store.Store, paths ...string) error {
	for _, path := range paths {
		_, err := s.Commit(ctx, store.Create(path, nil, store.Persistent))
		if err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrUnknown) {
			return err
		}
	}
	return nil
}
