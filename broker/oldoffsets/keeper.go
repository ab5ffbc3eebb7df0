// Package oldoffsets keeps consumers' offsets where clients kept them before Kafka 0.8.2, at
// /consumers/GROUP/offsets/TOPIC/PARTITION in ZooKeeper: what OffsetCommit and OffsetFetch v0 store and read there. After
// KafkaApis.commitOffsetsToZookeeper, handleOffsetFetchRequestFromZookeeper and KafkaZkClient.setOrCreateConsumerOffset.
// It has nothing to do with group coordinators, so any broker answers.
package oldoffsets

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// queued is how many requests may wait for ZooKeeper. More get REQUEST_TIMED_OUT at once.
const queued = 256

// tries is how often an offset is written again that somebody else has just made or deleted, or whose reply was lost.
const tries = 5

var (
	errTimeout     = errcode.New(kerr.RequestTimedOut, "ZooKeeper does not answer")
	errBusy        = errcode.New(kerr.RequestTimedOut, "too many requests wait for ZooKeeper")
	errPath        = errcode.New(kerr.UnknownServerError, "the group's name makes no path in ZooKeeper")
	errNotANumber  = errcode.New(kerr.UnknownServerError, "the node holds no offset")
	errNoPartition = errcode.New(kerr.UnknownTopicOrPartition, "there is no such topic or partition, or no offset of it")
	errTooLong     = errcode.New(kerr.OffsetMetadataTooLarge, "the metadata is longer than offset.metadata.max.bytes")
)

// Options are what a Keeper works with.
type Options struct {
	Store      store.Store
	Partitions func(topic string) int32 // 0 for a topic that does not exist
	// Fits says whether a commit's metadata is short enough. It is checked and then forgotten, as ZooKeeper has no place for it.
	Fits    func(metadata string) bool
	Timeout time.Duration // how long ZooKeeper may take
	Logger  *zap.Logger
}

// Keeper answers the requests, one after the other on a goroutine of its own. Safe for concurrent use.
type Keeper struct {
	o      Options
	work   chan func(context.Context)
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New starts a keeper; Close ends it.
func New(o Options) *Keeper {
	k := &Keeper{o: o, work: make(chan func(context.Context), queued)}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.wg.Go(k.run)
	return k
}

// Close ends the keeper. Requests that wait get an error.
func (k *Keeper) Close() {
	k.cancel()
	k.wg.Wait()
}

func (k *Keeper) run() {
	for {
		select {
		case <-k.ctx.Done():
			k.drain()
			return
		case f := <-k.work:
			ctx, cancel := context.WithTimeout(k.ctx, k.o.Timeout)
			f(ctx)
			cancel()
		}
	}
}

// drain lets what waits see that the keeper has ended.
func (k *Keeper) drain() {
	for {
		select {
		case f := <-k.work:
			f(k.ctx)
		default:
			return
		}
	}
}

// submit queues f; false if it does not fit, or nobody would take it.
func (k *Keeper) submit(f func(context.Context)) bool {
	if k.ctx.Err() != nil {
		return false
	}
	select {
	case k.work <- f:
		return true
	default:
		return false
	}
}

// offsetPath is where the offset of a partition lies; false if the name of the group makes no path.
func offsetPath(group, topic string, partition int32) (string, bool) {
	path := znode.ConsumerOffsetPath(group, topic, partition)
	return path, store.ValidPath(path)
}

// asked is a partition of a request, and what becomes of it.
type asked struct {
	topic     string
	partition int32
	path      string
	offset    int64
	err       error
}

// check looks whether a partition can have an offset.
func (k *Keeper) check(group string, a *asked) {
	var ok bool
	if a.partition < 0 || a.partition >= k.o.Partitions(a.topic) {
		a.err = errNoPartition
	} else if a.path, ok = offsetPath(group, a.topic, a.partition); !ok {
		a.err = errPath
	}
}

// open lists those without an error.
func open(all []asked) []*asked {
	var list []*asked
	for i := range all {
		if all[i].err == nil {
			list = append(list, &all[i])
		}
	}
	return list
}

// Commit stores offsets. The reply comes when ZooKeeper has them.
// Errors: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE, UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT where 3.9 waits on.
func (k *Keeper) Commit(r *kmsg.OffsetCommitRequest, reply func(kmsg.Response)) {
	var all []asked
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			a := asked{topic: t.Topic, partition: p.Partition, offset: p.Offset}
			if k.check(r.Group, &a); a.err == nil && p.Metadata != nil && !k.o.Fits(*p.Metadata) {
				a.err = errTooLong
			}
			all = append(all, a)
		}
	}
	k.answer(all, k.write, func() { reply(committed(r, all)) })
}

func committed(r *kmsg.OffsetCommitRequest, all []asked) kmsg.Response {
	answer := kmsg.NewPtrOffsetCommitResponse()
	answer.Version = r.Version
	for _, t := range r.Topics {
		told := kmsg.NewOffsetCommitResponseTopic()
		told.Topic = t.Topic
		for range t.Partitions {
			told.Partitions = append(told.Partitions, kmsg.OffsetCommitResponseTopicPartition{
				Partition: all[0].partition, ErrorCode: errcode.Of(all[0].err),
			})
			all = all[1:]
		}
		answer.Topics = append(answer.Topics, told)
	}
	return answer
}

// Fetch reads offsets. A partition without one gets UNKNOWN_TOPIC_OR_PARTITION, as clients of v0 expect.
func (k *Keeper) Fetch(r *kmsg.OffsetFetchRequest, reply func(kmsg.Response)) {
	var all []asked
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			a := asked{topic: t.Topic, partition: p}
			k.check(r.Group, &a)
			all = append(all, a)
		}
	}
	k.answer(all, k.read, func() { reply(fetched(r, all)) })
}

func fetched(r *kmsg.OffsetFetchRequest, all []asked) kmsg.Response {
	answer := kmsg.NewPtrOffsetFetchResponse()
	answer.Version = r.Version
	for _, t := range r.Topics {
		told := kmsg.NewOffsetFetchResponseTopic()
		told.Topic = t.Topic
		for range t.Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.Metadata = all[0].partition, all[0].offset, kmsg.StringPtr("")
			if all[0].err != nil {
				p.Offset, p.ErrorCode = -1, errcode.Of(all[0].err)
			}
			told.Partitions = append(told.Partitions, p)
			all = all[1:]
		}
		answer.Topics = append(answer.Topics, told)
	}
	return answer
}

// answer has the partitions that have no error yet worked on, then calls done.
func (k *Keeper) answer(all []asked, work func(context.Context, []*asked), done func()) {
	list := open(all)
	if len(list) == 0 {
		done()
		return
	}
	if !k.submit(func(ctx context.Context) {
		work(ctx, list)
		k.tell(list)
		done()
	}) {
		for _, a := range list {
			a.err = errBusy
		}
		done()
	}
}

// tell logs the first thing that went wrong and gives what has no code of its own one.
func (k *Keeper) tell(list []*asked) {
	logged := false
	for _, a := range list {
		if a.err == nil || errors.Is(a.err, errNoPartition) {
			continue
		}
		if !logged && k.ctx.Err() == nil {
			logged = true
			k.o.Logger.Warn("a consumer's offset in ZooKeeper could not be used", zap.String("path", a.path), zap.Error(a.err))
		}
		for _, passing := range []error{context.DeadlineExceeded, context.Canceled, store.ErrClosed, store.ErrSessionExpired, store.ErrUnknown} {
			if errors.Is(a.err, passing) {
				a.err = errTimeout
			}
		}
	}
}

// read reads offsets, all in one go.
func (k *Keeper) read(ctx context.Context, list []*asked) {
	reqs := make([]store.Req, len(list))
	for i, a := range list {
		reqs[i].Path = a.path
	}
	nodes, err := k.o.Store.Read(ctx, reqs...)
	for i, a := range list {
		switch {
		case err != nil:
			a.err = err
		case !nodes[i].Exists || nodes[i].Data == nil:
			a.err = errNoPartition
		default:
			var bad error
			if a.offset, bad = strconv.ParseInt(string(nodes[i].Data), 10, 64); bad != nil {
				a.err = errNotANumber
			}
		}
	}
}

// write stores offsets: those that have a node all in one go, then the new ones.
func (k *Keeper) write(ctx context.Context, list []*asked) {
	txns := make([]store.Txn, len(list))
	for i, a := range list {
		txns[i] = store.Txn{store.Set(a.path, a.data(), store.AnyVersion)}
	}
	for i, outcome := range k.o.Store.CommitEach(ctx, txns) {
		if list[i].err = outcome.Err; outcome.Err != nil {
			list[i].err = k.create(ctx, list[i], outcome.Err)
		}
	}
}

func (a *asked) data() []byte { return strconv.AppendInt(nil, a.offset, 10) }

// create stores an offset whose node could not be set. Setting may be done twice, so a lost reply is no reason to read back.
func (k *Keeper) create(ctx context.Context, a *asked, err error) error {
	for range tries {
		switch {
		case errors.Is(err, store.ErrNoNode):
			if err = k.createPath(ctx, a); err == nil {
				return nil
			}
		case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrExists):
			if _, err = k.o.Store.Commit(ctx, store.Set(a.path, a.data(), store.AnyVersion)); err == nil {
				return nil
			}
		default:
			return err
		}
	}
	return err
}

// createPath makes the node, and those above it that do not exist.
func (k *Keeper) createPath(ctx context.Context, a *asked) error {
	var missing []store.Op
	for path := store.Parent(a.path); path != "/"; path = store.Parent(path) {
		missing = append(missing, store.Create(path, nil, store.Persistent))
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if _, err := k.o.Store.Commit(ctx, missing[i]); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	_, err := k.o.Store.Commit(ctx, store.Create(a.path, a.data(), store.Persistent))
	return err
}
