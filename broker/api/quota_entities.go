package api

import (
	"net"
	"slices"

	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The types of quota entities on the wire.
const (
	entityUser   = "user"
	entityClient = "client-id"
	entityIP     = "ip"
)

// quotaEntity is whom quotas are for: a user, a client id, both, or an address. nil: it says nothing of one; defaultEntity stands
// for all others. Users and client ids are encoded as controller.EntityName does.
type quotaEntity struct{ user, client, ip *string }

// place is the metadata store's kind and name of an entity.
func (e quotaEntity) place() (kind, name string) {
	switch {
	case e.ip != nil:
		return kindIPs, *e.ip
	case e.user == nil:
		return kindClients, *e.client
	case e.client == nil:
		return kindUsers, *e.user
	}
	return kindUsers, controller.EntityNames(*e.user, *e.client)
}

// entityAt is the inverse of place.
func entityAt(kind, name string) quotaEntity {
	switch kind {
	case kindIPs:
		return quotaEntity{ip: &name}
	case kindClients:
		return quotaEntity{client: &name}
	}
	user, client, both := controller.SplitEntityNames(name)
	if both {
		return quotaEntity{user: &user, client: &client}
	}
	return quotaEntity{user: &user}
}

// field returns where an entity has a type's name; nil for no type.
func (e *quotaEntity) field(kind string) **string {
	switch kind {
	case entityUser:
		return &e.user
	case entityClient:
		return &e.client
	case entityIP:
		return &e.ip
	}
	return nil
}

// set gives the entity a part; a nil name is the default. Of a type that is named again the last name counts. After ZkAdminManager.parseAndSanitizeQuotaEntity.
func (e *quotaEntity) set(kind string, name *string) error {
	f := e.field(kind)
	switch {
	case f == nil:
		return errcode.Newf(kerr.InvalidRequest, "Unhandled client quota entity type: %s", kind)
	case name == nil:
		name = ptr(defaultEntity)
	case kind == entityIP && *name == defaultEntity:
		return errNoAddress(*name)
	case *name == "":
		return errcode.Newf(kerr.InvalidRequest, "Empty %s not supported", kind)
	default:
		name = ptr(entityName(kind, *name))
	}
	*f = name
	return nil
}

func ptr(s string) *string { return &s }

// entityName is what a quotaEntity has for a name on the wire.
func entityName(kind, name string) string {
	if kind == entityIP {
		return name
	}
	return controller.EntityName(name)
}

func errNoAddress(text string) error {
	return errcode.Newf(kerr.InvalidRequest, "%s is not a valid IP address.", text)
}

// check refuses entities that there cannot be.
func (e *quotaEntity) check() error {
	switch {
	case *e == quotaEntity{}:
		return errcode.New(kerr.InvalidRequest, "Invalid empty client quota entity")
	case e.ip != nil && (e.user != nil || e.client != nil):
		return errcode.New(kerr.InvalidRequest, "Invalid quota entity combination, IP entity should not be used with user/client ID entity.")
	case e.ip != nil && *e.ip != defaultEntity && net.ParseIP(*e.ip) == nil:
		return errNoAddress(*e.ip)
	}
	return nil
}

// parts lists the types and names of an entity as the wire has them: the default is no name.
func (e quotaEntity) parts(add func(kind string, name *string)) {
	for _, kind := range entityTypes {
		if name := *e.field(kind); name != nil {
			switch {
			case *name == defaultEntity:
				name = nil
			case kind != entityIP:
				name = ptr(controller.PlainName(*name))
			}
			add(kind, name)
		}
	}
}

// quotaFilter is what DescribeClientQuotas asks for.
type quotaFilter struct {
	asked  map[string]match // by type
	strict bool             // entities with other types are left out
}

// match is what a name must be.
type match struct {
	any  bool
	name string // as in a quotaEntity
}

func (f *quotaFilter) matches(e quotaEntity) bool {
	for _, kind := range entityTypes {
		name := *e.field(kind)
		m, asked := f.asked[kind]
		switch {
		case !asked && f.strict && name != nil:
			return false
		case !asked:
		case name == nil, !m.any && *name != m.name:
			return false
		}
	}
	return true
}

// kinds lists where in the metadata store to look.
func (f *quotaFilter) kinds() (kinds []string) {
	if _, ip := f.asked[entityIP]; !ip {
		kinds = append(kinds, kindUsers, kindClients)
	}
	_, user := f.asked[entityUser]
	if _, client := f.asked[entityClient]; !user && !client {
		kinds = append(kinds, kindIPs)
	}
	return kinds
}

var entityTypes = []string{entityUser, entityClient, entityIP}

// compareEntities gives answers an order.
func compareEntities(a, b quotaEntity) int {
	text := func(e quotaEntity) (names []string) {
		e.parts(func(kind string, name *string) {
			names = append(names, kind)
			if name != nil {
				names = append(names, *name)
			}
		})
		return names
	}
	return slices.Compare(text(a), text(b))
}
