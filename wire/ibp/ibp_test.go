package ibp

import (
	"fmt"
	"strings"
	"testing"
)

// What 3.9.2 sends, by the setting: MetadataVersion and ControllerChannelManager, seen in compat/cluster's TestOlderProtocol.
func TestOf(t *testing.T) {
	for version, want := range map[string]string{
		"2.8":       "orders 5 7 3, fetch 12, offsets 6, isr 0, recovery false, feature 1",
		"2.8-IV1":   "orders 5 7 3, fetch 12, offsets 6, isr 0, recovery false, feature 1",
		"3.0-IV0":   "orders 5 7 3, fetch 12, offsets 6, isr 0, recovery false, feature 1",
		"3.0":       "orders 5 7 3, fetch 12, offsets 7, isr 0, recovery false, feature 1",
		"3.1":       "orders 5 7 3, fetch 13, offsets 7, isr 0, recovery false, feature 1",
		"3.2":       "orders 6 7 3, fetch 13, offsets 7, isr 1, recovery true, feature 1",
		"3.3":       "orders 6 7 3, fetch 13, offsets 7, isr 2, recovery true, feature 2",
		"3.4":       "orders 7 8 4, fetch 13, offsets 7, isr 2, recovery true, feature 2",
		"3.4.1":     "orders 7 8 4, fetch 13, offsets 7, isr 2, recovery true, feature 2",
		"3.5-IV0":   "orders 7 8 4, fetch 14, offsets 8, isr 2, recovery true, feature 2",
		"3.5":       "orders 7 8 4, fetch 15, offsets 8, isr 3, recovery true, feature 2",
		"3.6":       "orders 7 8 4, fetch 15, offsets 8, isr 3, recovery true, feature 2",
		"3.7-IV3":   "orders 7 8 4, fetch 15, offsets 8, isr 3, recovery true, feature 2",
		"3.7":       "orders 7 8 4, fetch 16, offsets 8, isr 3, recovery true, feature 2",
		"3.8":       "orders 7 8 4, fetch 16, offsets 8, isr 3, recovery true, feature 2",
		"3.9":       "orders 7 8 4, fetch 17, offsets 9, isr 3, recovery true, feature 2",
		"3.9-IV0":   "orders 7 8 4, fetch 17, offsets 9, isr 3, recovery true, feature 2",
		"2.8-IV0":   `"2.8-IV0" given; allowed: 2.8 to 3.9 (bring the other brokers to 2.8 first)`,
		"2.7":       `"2.7" given; allowed: 2.8 to 3.9 (bring the other brokers to 2.8 first)`,
		"0.10.2":    `"0.10.2" given; allowed: 2.8 to 3.9 (bring the other brokers to 2.8 first)`,
		"4.0":       `"4.0" given; allowed: 2.8 to 3.9`,
		"3.9-IV1":   `"3.9-IV1" given; allowed: 2.8 to 3.9`,
		"3":         `"3" given; allowed: 2.8 to 3.9`,
		"3.9 ":      `"3.9 " given; allowed: 2.8 to 3.9`,
		"3.9-IV0-x": `"3.9-IV0-x" given; allowed: 2.8 to 3.9`,
	} {
		p, err := Of(version)
		got := fmt.Sprintf("orders %d %d %d, fetch %d, offsets %d, isr %d, recovery %v, feature %d",
			p.LeaderAndISR, p.UpdateMetadata, p.StopReplica, p.Fetch, p.ListOffsets, p.AlterPartition, p.LeaderRecovery, p.FeatureNode)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
	if Latest.Fetch != 17 || strings.Contains(fmt.Sprint(Latest), "false") {
		t.Errorf("%+v", Latest)
	}
}
