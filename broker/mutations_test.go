package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestMutationQuotaOfAll: what grows and what is deleted is charged by its partitions as what is created is; versions that know the error
// are refused, older ones let do it and kept waiting.
func TestMutationQuotaOfAll(t *testing.T) {
	grow := func(t *testing.T, of *kgo.Client, topic string, to int32) (int16, int32) {
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.TimeoutMillis, r.Topics = 60000, []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: to}}
		answer, err := r.RequestWith(t.Context(), of.SeedBrokers()[0])
		if err != nil {
			t.Fatal(err)
		}
		return answer.Topics[0].ErrorCode, answer.ThrottleMillis
	}
	remove := func(t *testing.T, of *kgo.Client, topic string, _ int32) (int16, int32) {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TimeoutMillis, r.TopicNames, r.Topics = 60000, []string{topic}, []kmsg.DeleteTopicsRequestTopic{{Topic: &topic}}
		answer, err := r.RequestWith(t.Context(), of.SeedBrokers()[0])
		if err != nil {
			t.Fatal(err)
		}
		return answer.Topics[0].ErrorCode, answer.ThrottleMillis
	}
	for _, c := range []struct {
		name   string
		key    kmsg.Key
		strict int16
		change func(t *testing.T, of *kgo.Client, topic string, to int32) (int16, int32)
	}{
		{"CreatePartitions", kmsg.CreatePartitions, 3, grow},
		{"DeleteTopics", kmsg.DeleteTopics, 5, remove},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := start(t, t.TempDir())
				admin := client(t, b)
				defer admin.Close()
				for _, topic := range []string{"large", "refused", "old"} {
					createTopic(t, admin, topic, 20, nil)
				}
				if code := quotas(t, admin, "controller_mutation_rate", 1, "user", ""); code != 0 {
					t.Fatalf("error %d", code)
				}
				try := func(version int16, topic string) (int16, int32) {
					known := kversion.Stable()
					known.SetMaxKeyVersion(c.key.Int16(), version)
					of := client(t, b, kgo.MaxVersions(known))
					defer of.Close()
					return c.change(t, of, topic, 40)
				}
				if code, wait := try(c.strict, "large"); code != 0 || wait != 0 {
					t.Errorf("begun within the quota: error %d, throttled for %d ms", code, wait)
				}
				if code, wait := try(c.strict, "refused"); code != kerr.ThrottlingQuotaExceeded.Code || wait < 5000 {
					t.Errorf("beyond it: error %d, throttled for %d ms", code, wait)
				}
				if code, wait := try(c.strict-1, "old"); code != 0 || wait < 20000 {
					t.Errorf("an older version, beyond it: error %d, throttled for %d ms", code, wait)
				}
				time.Sleep(time.Minute)
				if code, wait := try(c.strict, "refused"); code != 0 || wait != 0 {
					t.Errorf("after the wait: error %d, throttled for %d ms", code, wait)
				}
			})
		})
	}
}
