package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/log"
)

// newClusterID is the id that the environment names for a new cluster, "" where it names none or the data has one
// already: container images set CLUSTER_ID at every start, and it counts at the first.
func (b *Broker) newClusterID() string {
	named := b.config.ClusterID()
	for _, dir := range b.config.LogDirs() {
		found, err := log.Inspect(dir)
		if err != nil || found.ClusterID == "" { // what is wrong with a directory is said when it is opened
			continue
		}
		if named != "" && named != found.ClusterID {
			b.logger.Warn("the cluster id that the environment names (CLUSTER_ID) is not used: the data belongs to another cluster",
				zap.String("named", named), zap.String("cluster", found.ClusterID), zap.String("dir", dir))
		}
		return ""
	}
	return named
}

// StorePath is where the embedded metadata store of these log directories is: in the one that has one, whatever their
// order, else in the first.
func StorePath(dirs []string) (string, error) {
	found := ""
	for _, dir := range dirs {
		path := filepath.Join(dir, StoreFile)
		switch _, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		case found != "":
			return "", fmt.Errorf("%s and %s: a broker has one; move the one away that is not this broker's", found, path)
		default:
			found = path
		}
	}
	if found == "" {
		found = filepath.Join(dirs[0], StoreFile)
	}
	return found, nil
}

// warnOfStrays tells of partitions on disk that belong to no topic: what Kafka wrote is served only after an import.
func (b *Broker) warnOfStrays() {
	image := b.services.Metadata.Image()
	found, partitions := map[string]bool{}, 0
	for _, l := range b.services.Logs.All() {
		tp := l.TopicPartition()
		if image.Partition(tp.Topic, tp.Partition) == nil {
			partitions++
			found[tp.Topic] = true
		}
	}
	if partitions == 0 {
		return
	}
	const shown = 5
	topics := slices.Sorted(maps.Keys(found))
	if len(topics) > shown {
		topics = append(topics[:shown], "…")
	}
	b.logger.Warn("partitions in the data directories belong to no topic and are not served; if Kafka wrote them: stop this broker and run "+
		"gregor import "+strings.Join(b.config.LogDirs(), " "), zap.Int("partitions", partitions), zap.Strings("topics", topics))
}
