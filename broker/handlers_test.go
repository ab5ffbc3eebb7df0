package broker

import (
	"runtime"
	"testing"

	"github.com/gregor-broker/gregor/broker/config"
)

func TestHandlers(t *testing.T) {
	for override, want := range map[string]int{
		"num.partitions=1":  min(8, max(2, runtime.NumCPU())),
		"num.io.threads=8":  8,
		"num.io.threads=13": 13,
	} {
		snapshot, _, err := config.Load(config.Sources{Overrides: []string{override}})
		if err != nil {
			t.Fatal(err)
		}
		if got := handlers(snapshot); got != want {
			t.Errorf("%s: %d handlers, want %d", override, got, want)
		}
	}
}
