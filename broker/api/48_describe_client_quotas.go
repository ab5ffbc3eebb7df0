package api

import (
	"slices"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeClientQuotas tells the quotas of users, client ids and addresses (KIP-546).
// Errors for the whole: INVALID_REQUEST, UNSUPPORTED_VERSION for a type of entity that there is not. After
// ZkAdminManager.describeClientQuotas.
var describeClientQuotas = Entry{
	Key: kmsg.DescribeClientQuotas, ZooKeeper: v(0, 1), Kafka4: v(0, 1),
	Access: on(kmsg.ACLResourceTypeCluster, kmsg.ACLOperationDescribeConfigs), Cost: 16, Runs: onHandler,
	Serve: serveDescribeClientQuotas,
}

// How a component of the filter matches.
const (
	matchExact   = 0
	matchDefault = 1
	matchAny     = 2
)

func serveDescribeClientQuotas(s *Services, c *Call, request kmsg.Request) {
	response := kmsg.NewPtrDescribeClientQuotasResponse()
	f, err := filterOf(request.(*kmsg.DescribeClientQuotasRequest), s.Embedded)
	if err != nil {
		response.ErrorCode, response.ErrorMessage = c.Code(err), errcode.Message(err)
		c.Reply(response)
		return
	}
	response.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	for _, found := range s.quotas(f) {
		entry := kmsg.NewDescribeClientQuotasResponseEntry()
		found.entity.parts(func(kind string, name *string) {
			entry.Entity = append(entry.Entity, kmsg.DescribeClientQuotasResponseEntryEntity{Type: kind, Name: name})
		})
		for _, v := range found.values {
			entry.Values = append(entry.Values, kmsg.DescribeClientQuotasResponseEntryValue{Key: v.Key, Value: v.Value})
		}
		response.Entries = append(response.Entries, entry)
	}
	c.Reply(response)
}

// filterOf reads what is asked for. Where a name makes no sense 3.9 does not look at it, 4.4 (strictly) refuses it.
func filterOf(r *kmsg.DescribeClientQuotasRequest, strictly bool) (*quotaFilter, error) {
	f := &quotaFilter{asked: map[string]match{}, strict: r.Strict}
	for i := range r.Components {
		c := &r.Components[i]
		_, twice := f.asked[c.EntityType]
		var m match
		switch {
		case c.EntityType == "":
			return nil, errcode.New(kerr.InvalidRequest, "Unexpected empty filter component entity type")
		case !slices.Contains(entityTypes, c.EntityType):
			return nil, errcode.Newf(kerr.UnsupportedVersion, "Custom entity type '%s' not supported", c.EntityType)
		case twice:
			return nil, errcode.Newf(kerr.InvalidRequest, "Duplicate %s filter component entity type", c.EntityType)
		case c.MatchType == matchExact && c.Match != nil:
			m.name = entityName(c.EntityType, *c.Match)
		case c.MatchType == matchDefault && (c.Match == nil || !strictly):
			m.name = defaultEntity
		case c.MatchType == matchAny && (c.Match == nil || !strictly):
			m.any = true
		default:
			return nil, errcode.Newf(kerr.InvalidRequest, "A filter of %s that matches by type %d needs a name if, and only if, it is exact", c.EntityType, c.MatchType)
		}
		f.asked[c.EntityType] = m
	}
	if _, ip := f.asked[entityIP]; ip && len(f.asked) > 1 {
		return nil, errcode.New(kerr.InvalidRequest, "Invalid entity filter component combination, IP filter component should not be used with "+
			"user or clientId filter component.")
	}
	return f, nil
}

// quotasFound are the quotas of one entity.
type quotasFound struct {
	entity quotaEntity
	values []config.QuotaValue
}

// quotas returns what the filter matches, of the entities that have quotas.
func (s *Services) quotas(f *quotaFilter) (list []quotasFound) {
	for _, kind := range f.kinds() {
		for _, name := range s.Controller.ConfigNames(kind) {
			e := entityAt(kind, name)
			if values := config.DescribeQuotas(s.Controller.Configs(kind, name)); len(values) > 0 && f.matches(e) {
				list = append(list, quotasFound{e, values})
			}
		}
	}
	slices.SortFunc(list, func(a, b quotasFound) int { return compareEntities(a.entity, b.entity) })
	return list
}
