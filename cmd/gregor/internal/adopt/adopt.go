// Package adopt is the command that makes a data directory of Apache Kafka (ZooKeeper mode) one that a single broker
// serves: the directory holds the records but no list of topics, which is built here from its partitions' folders.
package adopt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gregor-broker/gregor/broker"
	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/store/embedded"
	"github.com/gregor-broker/gregor/log"
	"github.com/gregor-broker/gregor/log/epoch"
	"github.com/gregor-broker/gregor/log/vfs"
	"github.com/gregor-broker/gregor/wire/clock"
	"github.com/spf13/cobra"
)

// defaultBrokerID is the id that a broker whose data names none starts with.
const defaultBrokerID = 1

// offsetsSegmentBytes is Kafka's default of offsets.topic.segment.bytes, and of the transactions topic's.
const offsetsSegmentBytes = 104857600

type options struct {
	configs   []string
	retention string
	skip      bool
}

// Command returns "gregor import".
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "import DIR...",
		Short: "Make a data directory of Apache Kafka (ZooKeeper mode) one that \"gregor serve\" serves",
		Long: `Build the list of topics from the folders of a data directory that Apache Kafka wrote in ZooKeeper mode, and store it
there, in ` + broker.StoreFile + `. The records stay as they are. Kafka must not be running on the directory; with several
directories (log.dirs), name all of them in the same order as in the broker's configuration.

The settings of topics are not in the directory: Kafka keeps them in ZooKeeper. Give them with --config. Unless told
otherwise nothing of the imported topics is deleted by age or size (retention.ms=-1, retention.bytes=-1).

It can be repeated: what is known already is left alone.`,
		Example: `  gregor import /var/lib/kafka
  gregor import /data1 /data2 --config 'state:cleanup.policy=compact' --config 'orders:retention.ms=604800000'
  gregor serve --override log.dirs=/var/lib/kafka`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error { return o.run(cmd.Context(), cmd.OutOrStdout(), dirs) },
	}
	cmd.Flags().StringArrayVarP(&o.configs, "config", "c", nil, "a setting of a topic, `TOPIC:key=value` (repeatable)")
	cmd.Flags().StringVar(&o.retention, "retention", "forever", "of topics without such a setting: forever, or broker (the broker's log.retention)")
	cmd.Flags().BoolVar(&o.skip, "skip-incomplete", false, "leave out topics of which partitions are missing (the directory of one broker of several)")
	_ = cmd.RegisterFlagCompletionFunc("retention", cobra.FixedCompletions([]string{"forever", "broker"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o options) run(ctx context.Context, out io.Writer, dirs []string) error {
	settings, err := o.settings()
	if err != nil {
		return err
	}
	found, err := inspect(dirs)
	if err != nil {
		return err
	}
	unlock, err := lock(dirs)
	if err != nil {
		return err
	}
	defer unlock()
	topics, err := found.importTopics(o.skip)
	if err != nil {
		return err
	}
	defaults, _, err := config.Load(config.Sources{})
	if err != nil {
		return err
	}
	for i := range topics {
		topics[i].Configs = o.configsOf(topics[i].Name, settings)
		delete(settings, topics[i].Name)
		if err := config.ValidateTopic(defaults, topics[i].Configs); err != nil {
			return fmt.Errorf("topic %s: %w", topics[i].Name, err)
		}
	}
	if len(settings) > 0 {
		return fmt.Errorf("--config names topics that are not there: %s", strings.Join(slices.Sorted(maps.Keys(settings)), ", "))
	}
	path, err := broker.StorePath(dirs)
	if err != nil {
		return err
	}
	store, err := embedded.Open(path, embedded.Options{Clock: clock.System})
	if err != nil {
		return err
	}
	err = errors.Join(controller.Import(ctx, store, topics), store.Close())
	if err != nil {
		return err
	}
	return report(out, found, topics)
}

// lock keeps brokers, gregor's and Kafka's, off the directories until unlock is called.
func lock(dirs []string) (unlock func(), err error) {
	var held []io.Closer
	unlock = func() {
		for _, l := range held {
			_ = l.Close()
		}
	}
	for _, dir := range dirs {
		l, err := vfs.OS.Lock(filepath.Join(dir, ".lock"))
		if err != nil {
			unlock()
			if errors.Is(err, vfs.ErrLocked) {
				err = fmt.Errorf("a broker runs on %s; stop it first", dir)
			}
			return nil, err
		}
		held = append(held, l)
	}
	return unlock, nil
}

// settings reads --config by topic.
func (o options) settings() (map[string]map[string]string, error) {
	if o.retention != "forever" && o.retention != "broker" {
		return nil, cli.Usagef("--retention %s: want forever or broker", o.retention)
	}
	all := map[string]map[string]string{}
	for _, text := range o.configs {
		topic, rest, ok := strings.Cut(text, ":")
		key, value, isPair := strings.Cut(rest, "=")
		if !ok || !isPair || topic == "" || key == "" {
			return nil, cli.Usagef("--config %s: want TOPIC:key=value", text)
		}
		if all[topic] == nil {
			all[topic] = map[string]string{}
		}
		all[topic][key] = value
	}
	return all, nil
}

// configsOf is the configuration that a topic gets: what it was created with if it is Kafka's own, and what was given.
func (o options) configsOf(topic string, settings map[string]map[string]string) map[string]string {
	configs := map[string]string{}
	switch {
	case topic == controller.OffsetsTopicName:
		configs = maps.Clone(controller.OffsetsTopic(0, 0, offsetsSegmentBytes).Configs)
	case topic == controller.TransactionsTopicName:
		configs = maps.Clone(controller.TransactionsTopic(0, 0, offsetsSegmentBytes, 1).Configs)
	case o.retention == "forever":
		configs["retention.ms"], configs["retention.bytes"] = "-1", "-1"
	}
	maps.Copy(configs, settings[topic])
	return configs
}

// finding is what several directories hold together.
type finding struct {
	brokerID  int32
	clusterID string
	topics    map[string]*foundTopic
	skipped   []string // topics left out
}

type foundTopic struct {
	id     log.TopicID
	epochs map[int32]int32  // the last leader epoch of each partition
	dirs   map[int32]string // where it lies
}

func inspect(dirs []string) (*finding, error) {
	f := &finding{brokerID: -1, topics: map[string]*foundTopic{}}
	for _, dir := range dirs {
		in, err := log.Inspect(dir)
		switch {
		case err != nil:
			return nil, err
		case in.KRaft:
			return nil, fmt.Errorf("%s belongs to Kafka in KRaft mode; only directories of ZooKeeper mode can be imported", dir)
		case f.brokerID >= 0 && in.BrokerID >= 0 && in.BrokerID != f.brokerID:
			return nil, fmt.Errorf("%s is of broker %d and %s of broker %d", dirs[0], f.brokerID, dir, in.BrokerID)
		}
		if in.BrokerID >= 0 {
			f.brokerID, f.clusterID = in.BrokerID, in.ClusterID
		}
		for _, p := range in.Partitions {
			if err := f.add(dir, p); err != nil {
				return nil, err
			}
		}
	}
	if f.brokerID < 0 {
		if len(f.topics) == 0 {
			return nil, fmt.Errorf("%s: neither a meta.properties nor partitions; this is no data directory of Kafka", strings.Join(dirs, ", "))
		}
		f.brokerID = defaultBrokerID
	}
	return f, nil
}

func (f *finding) add(dir string, p log.InspectedPartition) error {
	t := f.topics[p.Topic]
	if t == nil {
		t = &foundTopic{epochs: map[int32]int32{}, dirs: map[int32]string{}}
		f.topics[p.Topic] = t
	}
	if p.TopicID != (log.TopicID{}) {
		if t.id != (log.TopicID{}) && t.id != p.TopicID {
			return fmt.Errorf("the partitions of topic %s have different topic ids (partition.metadata): "+
				"some are of a deleted topic of the same name; move those folders away", p.Topic)
		}
		t.id = p.TopicID
	}
	if other, twice := t.dirs[p.Partition]; twice {
		return fmt.Errorf("%s-%d lies in %s and in %s; move the stale one away", p.Topic, p.Partition, other, dir)
	}
	last, err := lastEpoch(filepath.Join(dir, fmt.Sprintf("%s-%d", p.Topic, p.Partition)))
	if err != nil {
		return err
	}
	t.dirs[p.Partition], t.epochs[p.Partition] = dir, last
	return nil
}

// lastEpoch reads the newest leader epoch of a partition's data, -1 if there is none.
func lastEpoch(dir string) (int32, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "leader-epoch-checkpoint"))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	history, err := epoch.Parse(raw)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", dir, err)
	}
	if last, ok := history.Latest(); ok {
		return last, nil
	}
	return -1, nil
}

// importTopics makes topics of what was found. A topic must be there with all its partitions, from 0, unless incomplete
// ones are skipped.
func (f *finding) importTopics(skip bool) ([]controller.ImportTopic, error) {
	var topics []controller.ImportTopic
	for _, name := range slices.Sorted(maps.Keys(f.topics)) {
		one, missing := f.topics[name].importTopic(name, f.brokerID)
		switch {
		case missing < 0:
			topics = append(topics, one)
		case !skip:
			return nil, fmt.Errorf("partition %d of topic %s is missing: is this the directory of one broker of several? "+
				"--skip-incomplete leaves such topics out", missing, name)
		default:
			f.skipped = append(f.skipped, name)
		}
	}
	return topics, nil
}

// importTopic also returns the first partition that is missing, -1 if none is.
func (t *foundTopic) importTopic(name string, brokerID int32) (topic controller.ImportTopic, missing int32) {
	topic = controller.ImportTopic{Name: name, ID: t.id}
	for p := range int32(len(t.dirs)) {
		last, ok := t.epochs[p]
		if !ok {
			return topic, p
		}
		topic.Partitions = append(topic.Partitions, controller.ImportPartition{Replicas: []int32{brokerID}, LeaderEpoch: last})
	}
	return topic, -1
}

func report(out io.Writer, f *finding, topics []controller.ImportTopic) error {
	rows := [][]string{{"TOPIC", "PARTITIONS", "SETTINGS, IF NEW"}}
	for _, t := range topics {
		var settings []string
		for _, key := range slices.Sorted(maps.Keys(t.Configs)) {
			settings = append(settings, key+"="+t.Configs[key])
		}
		rows = append(rows, []string{t.Name, fmt.Sprint(len(t.Partitions)), strings.Join(settings, " ")})
	}
	if err := cli.Table(out, rows); err != nil {
		return err
	}
	if len(f.skipped) > 0 {
		fmt.Fprintf(out, "left out, since partitions are missing: %s\n", strings.Join(f.skipped, ", "))
	}
	cluster := ""
	if f.clusterID != "" {
		cluster = " of cluster " + f.clusterID
	}
	_, err := fmt.Fprintf(out, "%s imported for broker %d%s\n", cli.Count(len(topics), "topic"), f.brokerID, cluster)
	return err
}
