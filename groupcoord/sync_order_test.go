package groupcoord

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// From version 5 on a SyncGroup without protocol type or name is inconsistent before anything else is looked at (KIP-559).
func TestSyncGroupWithoutProtocol(t *testing.T) {
	inBubble(t, nil, func(w *world) {
		for v, want := range map[int16]int16{4: kerr.InvalidGroupID.Code, 5: kerr.InconsistentGroupProtocol.Code} {
			w.codeIs("no group, no protocol", w.do(v, kmsg.NewPtrSyncGroupRequest()), want)
		}
	})
}
