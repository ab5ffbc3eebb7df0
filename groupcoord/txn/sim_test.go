package txn

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "play one seed only")
	simSeeds = flag.Int("sim.seeds", 600, "how many seeds are played")
)

// TestSim: producers with few transactional ids begin, write to and end transactions, each believing that it is the only one, while
// the log stalls, refuses and fails, leaders move and markers are refused, time passes and the coordinator moves or dies. Whatever
// happens: a transaction's markers all say the same; what was answered as committed or aborted is so in every partition in the end;
// no two producers get the same id and epoch; and at last nothing is left half done.
func TestSim(t *testing.T) {
	promised, written := 0, 0
	for seed := uint64(1); seed <= uint64(*simSeeds); seed++ {
		if *simSeed != 0 && seed != *simSeed {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			s := &sim{
				world: newWorld(t, int16(seed%2)*second), rand: rand.New(rand.NewPCG(seed, 1)),
				given: map[string]bool{}, fate: map[string]bool{}, must: map[string]bool{}, result: map[string]bool{},
			}
			s.c.Elected(0, 0)
			for range 80 {
				s.step()
			}
			s.settle()
			s.close()
			promised, written = promised+len(s.must), written+len(s.result)
			if t.Failed() {
				t.Fatalf("play it again with -run TestSim -sim.seed %d", seed)
			}
		})
	}
	t.Logf("%d markers were promised, %d written", promised, written)
	if *simSeed == 0 && promised < *simSeeds {
		t.Error("hardly any transaction ended")
	}
}

type sim struct {
	*world
	rand      *rand.Rand
	producers []*simProducer
	given     map[string]bool // "id/epoch" that a new producer was given
	fate      map[string]bool // of "producer/epoch of the marker": commit, as the first marker said
	must      map[string]bool // "t-partition producer/epoch commit" that must be written in the end
	result    map[string]bool // markers that were written, in must's words
}

// simProducer is what a producer believes.
type simProducer struct {
	id         string
	producer   int64
	epoch      int16
	partitions map[int32]bool // that were added to the open transaction
	second     bool
}

func (s *sim) step() {
	synctest.Wait()
	switch n := s.rand.IntN(100); {
	case n < 12:
		s.begin()
	case n < 40:
		s.join()
	case n < 62:
		s.finish()
	case n < 70:
		pass(time.Duration(s.rand.IntN(3000)) * time.Millisecond)
	case n < 73:
		pass(time.Duration(s.rand.IntN(90)) * time.Second)
	case n < 77:
		s.log.Hold()
	case n < 82:
		s.log.Release()
	case n < 85:
		s.log.Refuse(kerr.NotEnoughReplicas)
	case n < 89:
		s.log.Refuse(nil)
	case n < 91:
		s.log.FailNext(kerr.KafkaStorageError)
	case n < 94:
		s.disturb()
	case n < 97:
		s.c.Resigned(0, s.epoch+1)
		synctest.Wait()
		s.elected()
	default:
		s.close()
		s.open()
		s.elected()
	}
	s.look()
}

// elected has a coordinator take over; what was not replicated may be lost.
func (s *sim) elected() {
	if s.rand.IntN(2) == 0 {
		s.log.Truncate(0)
	}
	s.epoch += 2
	s.c.Elected(0, s.epoch)
}

// begin starts a producer.
func (s *sim) begin() {
	p := &simProducer{id: fmt.Sprint("x", s.rand.IntN(3)), second: s.level >= second && s.rand.IntN(2) == 0}
	said := s.init(p.id).now()
	if _, err := fmt.Sscanf(said, "ok %d/%d", &p.producer, &p.epoch); err != nil {
		return
	}
	if identity := strings.TrimPrefix(said, "ok "); s.given[identity] {
		s.t.Errorf("%s was given to two producers", identity)
	} else {
		s.given[identity] = true
	}
	p.partitions = map[int32]bool{}
	s.producers = append(s.producers, p)
}

func (s *sim) someone() *simProducer {
	if len(s.producers) == 0 {
		return nil
	}
	return s.producers[len(s.producers)-1-s.rand.IntN(min(4, len(s.producers)))]
}

func (s *sim) join() {
	p, index := s.someone(), int32(s.rand.IntN(4))
	if p == nil {
		return
	}
	if said := s.joins(p.id, p.producer, p.epoch, p.second, index).now(); said == "ok" {
		p.partitions[index] = true
	}
}

// finish ends a producer's transaction. Only if it is told that this was done must it be so: otherwise anything may have happened,
// and the producer gives up.
func (s *sim) finish() {
	p, commit := s.someone(), s.rand.IntN(2) == 0
	if p == nil || len(p.partitions) == 0 {
		return
	}
	version := int16(4)
	if p.second {
		version = 5
	}
	said, marker := s.end(version, p.id, p.producer, p.epoch, commit).now(), p.epoch
	if !strings.HasPrefix(said, "ok") {
		p.partitions = map[int32]bool{}
		p.epoch = -5 // it gives up
		return
	}
	if p.second {
		marker++
		if _, err := fmt.Sscanf(said, "ok %d/%d", &p.producer, &p.epoch); err != nil {
			s.t.Error(said)
		}
		s.given[strings.TrimPrefix(said, "ok ")] = true
	}
	for index := range p.partitions {
		s.must[fmt.Sprintf("t-%d %d/%d commit=%t", index, p.producer, marker, commit)] = true
	}
	p.partitions = map[int32]bool{}
}

// disturb makes the leaders do something else.
func (s *sim) disturb() {
	index := int32(s.rand.IntN(4))
	switch s.rand.IntN(5) {
	case 0:
		s.leaders.lead(index, -1)
	case 1:
		s.leaders.lead(index, int32(s.rand.IntN(3)))
	case 2:
		s.leaders.answer(index, []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.RequestTimedOut}[s.rand.IntN(3)])
	case 3:
		s.leaders.hold()
	case 4:
		s.leaders.release()
	}
}

// look checks the markers that were written.
func (s *sim) look() {
	for _, m := range s.leaders.markers() {
		var topic, identity, result string
		if _, err := fmt.Sscan(m, &topic, &identity, &result); err != nil {
			s.t.Fatal(err)
		}
		commit := result == "commit=true"
		if before, ok := s.fate[identity+topic]; ok && before != commit && s.level >= second && strings.Contains(m, " v2 ") {
			s.t.Errorf("%s contradicts an earlier marker", m) // each epoch is one transaction in the second protocol
		}
		s.fate[identity+topic] = commit
		s.result[fmt.Sprintf("%s %s %s", topic, identity, result)] = true
	}
}

// settle lets everything that is under way end.
func (s *sim) settle() {
	s.log.Refuse(nil)
	s.log.Release()
	for index := range int32(4) {
		s.leaders.lead(index, 1)
	}
	s.leaders.release()
	pass(5 * time.Minute)
	s.look()
	for want := range s.must {
		if !s.result[want] {
			s.t.Errorf("%s was promised and not written", want)
		}
	}
	for i := range 3 {
		id := fmt.Sprint("x", i)
		if v := s.last(id); v != nil && (v.Status.String() == "Ongoing" || strings.HasPrefix(v.Status.String(), "Prepare")) {
			s.t.Errorf("%s is left as %s", id, s.status(id))
		}
	}
}
