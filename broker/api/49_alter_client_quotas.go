package api

import (
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

var errEntityTwice = errcode.New(kerr.InvalidRequest, "the entity is named more than once")

func serveAlterClientQuotas(s *Services, c *Call, request kmsg.Request) {
	r := request.(*kmsg.AlterClientQuotasRequest)
	seen := map[[2]string]bool{}
	gather := newGather(len(r.Entries), func(results []error) {
		response := kmsg.NewPtrAlterClientQuotasResponse()
		for i, err := range results {
			answer := kmsg.NewAlterClientQuotasResponseEntry()
			answer.ErrorCode, answer.ErrorMessage = c.Code(err), errcode.Message(err)
			for _, e := range r.Entries[i].Entity {
				answer.Entity = append(answer.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: e.Type, Name: e.Name})
			}
			response.Entries = append(response.Entries, answer)
		}
		c.Reply(response)
	})
	for i := range r.Entries {
		e, err := entityOf(&r.Entries[i])
		if err != nil {
			gather.put(i, err)
			continue
		}
		kind, name := e.place()
		if seen[[2]string{kind, name}] {
			gather.put(i, errEntityTwice)
			continue
		}
		seen[[2]string{kind, name}] = true
		var changes []config.QuotaChange
		for _, op := range r.Entries[i].Ops {
			changes = append(changes, config.QuotaChange{Key: op.Key, Value: op.Value, Remove: op.Remove})
		}
		change := func(old map[string]string) (map[string]string, error) {
			return config.AlterQuotas(s.Config.Now(), e.ip != nil, old, changes)
		}
		s.Controller.AlterConfigs(kind, name, change, r.ValidateOnly, func(err error) { gather.put(i, err) })
	}
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
