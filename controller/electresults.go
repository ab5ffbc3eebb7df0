package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// electionResults are the rows of an answer to ElectLeaders.
type electionResults struct {
	resp *kmsg.ElectLeadersResponse
	all  bool
	rows []electionRow
	at   map[string]int // of topics in the answer that fill has added
}

type electionRow struct {
	topic     string
	at        int // of the topic in the answer; -1: wherever its name is
	partition int32
	code      int16
	message   *string
}

// newElectionResults takes what a request names. 4.4 answers topic by topic as it is asked, 3.9 once for each partition, in any order.
func newElectionResults(r *kmsg.ElectLeadersRequest, resp *kmsg.ElectLeadersResponse, asAsked bool) *electionResults {
	e := &electionResults{resp: resp, all: r.Topics == nil, at: map[string]int{}}
	known := map[string]map[int32]bool{}
	for i, rt := range r.Topics {
		if asAsked {
			t := kmsg.NewElectLeadersResponseTopic()
			t.Topic = rt.Topic
			resp.Topics = append(resp.Topics, t)
			for _, p := range rt.Partitions {
				e.rows = append(e.rows, electionRow{topic: rt.Topic, at: i, partition: p})
			}
			continue
		}
		if known[rt.Topic] == nil {
			known[rt.Topic] = map[int32]bool{}
		}
		for _, p := range rt.Partitions {
			if !known[rt.Topic][p] {
				known[rt.Topic][p] = true
				e.add(rt.Topic, p)
			}
		}
	}
	return e
}

func (e *electionResults) add(topic string, partition int32) {
	e.rows = append(e.rows, electionRow{topic: topic, at: -1, partition: partition})
}

func (e *electionResults) set(i int, code int16, message *string) {
	e.rows[i].code, e.rows[i].message = code, message
}

// fill writes the rows, topics together.
func (e *electionResults) fill() {
	for _, row := range e.rows {
		if e.all && row.code == kerr.ElectionNotNeeded.Code {
			continue
		}
		p := kmsg.NewElectLeadersResponseTopicPartition()
		p.Partition, p.ErrorCode, p.ErrorMessage = row.partition, row.code, row.message
		t := e.topic(&row)
		t.Partitions = append(t.Partitions, p)
	}
}

// topic is where in the answer a row belongs.
func (e *electionResults) topic(row *electionRow) *kmsg.ElectLeadersResponseTopic {
	if row.at >= 0 {
		return &e.resp.Topics[row.at]
	}
	i, known := e.at[row.topic]
	if !known {
		i = len(e.resp.Topics)
		e.at[row.topic] = i
		t := kmsg.NewElectLeadersResponseTopic()
		t.Topic = row.topic
		e.resp.Topics = append(e.resp.Topics, t)
	}
	return &e.resp.Topics[i]
}
