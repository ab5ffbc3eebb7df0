package api

import (
	"cmp"
	"slices"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterClientQuotas sets and removes quotas of users, client ids and addresses (KIP-546). An entity without quotas is
// forgotten.
// Errors per entity: INVALID_REQUEST. After ZkAdminManager.alterClientQuotas and ClientQuotaControlManager.
var alterClientQuotas = Entry{
	Key: kmsg.AlterClientQuotas, ZooKeeper: v(0, 1), Kafka4: v(0, 1),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationAlterConfigs), Cost: 16, Runs: onHandler,
	Serve: serveAlterClientQuotas,
}

var (
	errEntityTwice = errcode.New(kerr.InvalidRequest, "Ignoring duplicate entity.")
	errQuotaTwice  = errcode.New(kerr.InvalidRequest, "Duplicate quota key not updated for entity.")
)

// quotaEntry is what a request wants of one entity.
type quotaEntry struct {
	quotaEntity
	named   []kmsg.AlterClientQuotasRequestEntryEntity
	changes []config.QuotaChange
	err     error // instead
	after   error // although it is done
}

func serveAlterClientQuotas(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.AlterClientQuotasRequest)
	entries := s.quotaEntries(r)
	gather := newGather(len(entries), func(results []error) {
		response := kmsg.NewPtrAlterClientQuotasResponse()
		for i, err := range results {
			answer := kmsg.NewAlterClientQuotasResponseEntry()
			answer.ErrorCode, answer.ErrorMessage = c.Code(err), errcode.Message(err)
			for _, e := range entries[i].named {
				answer.Entity = append(answer.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: e.Type, Name: e.Name})
			}
			response.Entries = append(response.Entries, answer)
		}
		c.Reply(response)
	})
	for i, e := range entries {
		if e.err != nil {
			gather.put(i, e.err)
			continue
		}
		change := func(old map[string]string) (map[string]string, error) {
			return config.AlterQuotas(s.Config.Now(), e.ip != nil, old, e.changes)
		}
		kind, name := e.place()
		s.Controller.AlterConfigs(kind, name, change, r.ValidateOnly, func(err error) { gather.put(i, cmp.Or(err, e.after)) })
	}
}

// quotaEntries returns what is wanted of each entity, which are answered for once. Of one that is named again 3.9 does it all, one
// after the other; 4.4 does the first, and answers that it ignores the second.
func (s *Services) quotaEntries(r *kmsg.AlterClientQuotasRequest) []*quotaEntry {
	var entries []*quotaEntry
	place := map[[2]string]*quotaEntry{}
	for i := range r.Entries {
		e := &quotaEntry{named: lastOfTypes(r.Entries[i].Entity)}
		keys := map[string]bool{}
		for _, op := range r.Entries[i].Ops {
			if keys[op.Key] && s.Embedded {
				e.err = errQuotaTwice
			}
			keys[op.Key] = true
			e.changes = append(e.changes, config.QuotaChange{Key: op.Key, Value: op.Value, Remove: op.Remove})
		}
		var err error
		if e.quotaEntity, err = entityOf(&r.Entries[i]); err != nil {
			e.err = err
			entries = append(entries, e)
			continue
		}
		kind, name := e.place()
		switch first := place[[2]string{kind, name}]; {
		case first == nil:
			place[[2]string{kind, name}] = e
			entries = append(entries, e)
		case s.Embedded:
			first.after = errEntityTwice
		default:
			first.changes = append(first.changes, e.changes...)
		}
	}
	return entries
}

// lastOfTypes leaves of each type of an entity the last part.
func lastOfTypes(parts []kmsg.AlterClientQuotasRequestEntryEntity) (kept []kmsg.AlterClientQuotasRequestEntryEntity) {
	for i, part := range parts {
		if !slices.ContainsFunc(parts[i+1:], func(later kmsg.AlterClientQuotasRequestEntryEntity) bool { return later.Type == part.Type }) {
			kept = append(kept, part)
		}
	}
	return kept
}

func entityOf(entry *kmsg.AlterClientQuotasRequestEntry) (quotaEntity, error) {
	var e quotaEntity
	for _, part := range entry.Entity {
		if err := e.set(part.Type, part.Name); err != nil {
			return e, err
		}
	}
	return e, e.check()
}
