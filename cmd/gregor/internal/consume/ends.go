package consume

import (
	"context"

	"github.com/gregor-broker/gregor/cmd/gregor/internal/cli"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ends knows up to where to read when there is no following; nil follows for ever. Used by one goroutine.
type ends struct {
	left map[topicPartition]int64 // the offset that ends each partition that has not been read to its end
}

type topicPartition struct {
	topic     string
	partition int32
}

// ends asks for the present ends of what will be read; nil with --follow. With a group, records that other members read
// never come here: then silence ends it.
func (p *plan) ends(ctx context.Context, client *kgo.Client) (*ends, error) {
	if p.follow {
		return nil, nil
	}
	admin := kadm.NewClient(client)
	start, err := admin.ListStartOffsets(ctx, p.topics...)
	if err != nil {
		return nil, err
	}
	list := admin.ListEndOffsets
	if p.committed {
		list = admin.ListCommittedOffsets
	}
	end, err := list(ctx, p.topics...)
	if err != nil {
		return nil, err
	}
	if err := end.Error(); err != nil {
		return nil, cli.Explain(err, "")
	}
	return p.between(start, end), nil
}

// between keeps the partitions that have something between where reading begins and where it ends.
func (p *plan) between(start, end kadm.ListedOffsets) *ends {
	e := &ends{left: map[topicPartition]int64{}}
	end.Each(func(o kadm.ListedOffset) {
		first, _ := start.Lookup(o.Topic, o.Partition)
		if o.Offset <= first.Offset || p.exact >= o.Offset || p.offset == "end" || p.offset == "latest" || !p.reads(o.Partition) {
			return
		}
		e.left[topicPartition{o.Topic, o.Partition}] = o.Offset
	})
	return e
}

func (p *plan) reads(partition int32) bool {
	if len(p.partitions) == 0 {
		return true
	}
	for _, one := range p.partitions {
		if one == partition {
			return true
		}
	}
	return false
}

// passed notes a record that was read.
func (e *ends) passed(r *kgo.Record) {
	if e == nil {
		return
	}
	tp := topicPartition{r.Topic, r.Partition}
	if end, ok := e.left[tp]; ok && r.Offset+1 >= end {
		delete(e.left, tp)
	}
}

// reached says that everything has been read.
func (e *ends) reached() bool { return e != nil && len(e.left) == 0 }
