package broker

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/store/storetest"
	"github.com/gregor-broker/gregor/controller/znode"
)

// TestFailedDirIsToldOfInTheEnd: a directory may fail while ZooKeeper is away, or its answer gets lost; the controller hears of it all the
// same, as nobody else leads before.
func TestFailedDirIsToldOfInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		lost := 40
		c.tree.OnCommit = func(_ *storetest.Client, ops []store.Op) storetest.Fault {
			if lost > 0 && strings.HasPrefix(ops[0].Path, znode.LogDirEventPrefix) {
				lost--
				return storetest.LoseRequest
			}
			return storetest.NoFault
		}
		b := c.start(1, "offsets.topic.replication.factor=1")
		b.background.Go(b.tellOfFailedDir)
		time.Sleep(time.Minute) // of the bubble's time
		synctest.Wait()
		events, err := b.store.Read(t.Context(), store.Req{Path: znode.LogDirEventsPath, Kind: store.Children})
		if err != nil {
			t.Fatal(err)
		}
		// The controller has read it and taken it away: only its number is left.
		next, err := b.store.Commit(t.Context(), store.Create(znode.LogDirEventPrefix, nil, store.Sequential))
		if err != nil || len(events[0].Children) != 0 || !strings.HasSuffix(next[0].Path, "0000000001") {
			t.Errorf("%v, %v; nodes %v", next, err, slices.Collect(maps.Keys(c.tree.Dump())))
		}
	})
}
