package groupcoord

import (
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Member ids end with an id of 36 characters and a dash. What does not fit a record then is refused, as Kafka does; what
// fits is there after a restart.
func TestLongMemberIDs(t *testing.T) {
	const longest = math.MaxInt16 - 37
	inBubble(t, nil, func(w *world) {
		for n, want := range map[int]int16{longest: 0, longest + 1: kerr.UnknownServerError.Code, math.MaxInt16: kerr.UnknownServerError.Code} {
			for _, v := range []int16{5, 9} {
				r := staticReq("g", "", strings.Repeat("i", n))
				r.Group += strings.Repeat("g", n%10) + string(rune('a'+v))
				j := w.do(v, r).(*kmsg.JoinGroupResponse)
				if j.ErrorCode != want || (want != 0) != (j.MemberID == "") {
					t.Errorf("an instance id of %d bytes, v%d: error %d, member id of %d bytes", n, v, j.ErrorCode, len(j.MemberID))
				}
				if want != 0 {
					continue
				}
				w.do(3, syncReq(r.Group, j, j.MemberID, "assigned"))
				w.restart()
				if state := w.state(r.Group); state != "Stable" {
					t.Errorf("an instance id of %d bytes, v%d: the group is %s after a restart", n, v, state)
				}
			}
		}
	})
}
