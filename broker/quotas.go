package broker

import (
	"net/netip"
	"strings"

	"github.com/gregor-broker/gregor/broker/config"
	"github.com/gregor-broker/gregor/broker/quota"
	"github.com/gregor-broker/gregor/controller"
	"github.com/gregor-broker/gregor/controller/znode"
	"github.com/gregor-broker/gregor/wire/clock"
	"go.uber.org/zap"
)

// clientQuotas are the quotas of clients. They change with the configuration of users, client ids and addresses, on the
// goroutine of the controller's observer; requests and new connections ask them.
type clientQuotas struct {
	clients     *quota.Clients
	connections *quota.Connections
	logger      *zap.Logger
}

func newClientQuotas(c *config.Snapshot, clk clock.Clock, logger *zap.Logger) *clientQuotas {
	windows, mutations := quotaWindows(c)
	q := &clientQuotas{
		clients: quota.NewClients(clk, windows, mutations), connections: quota.NewConnections(clk, windows), logger: logger,
	}
	q.paces(c)
	return q
}

// quotaWindows are those of the clients' quotas, and of that for changes of topics.
func quotaWindows(c *config.Snapshot) (clients, mutations quota.Windows) {
	return quota.Windows{Num: config.QuotaWindows.Of(c), Size: config.QuotaWindow.Of(c)},
		quota.Windows{Num: config.ControllerQuotaWindows.Of(c), Size: config.ControllerQuotaWindow.Of(c)}
}

// paces takes over how fast connections may come.
func (q *clientQuotas) paces(c *config.Snapshot) {
	q.connections.SetAll(float64(config.ConnectionCreationRate.Of(c)))
	rates, own := map[string]float64{}, c.ListenerLimits()
	for _, l := range c.Listeners() {
		if rate := own[strings.ToLower(l.Name)].CreationRate; rate > 0 {
			rates[l.Name] = rate
		}
	}
	q.connections.SetListeners(rates)
}

// changed takes over what the metadata store has of one entity; kind and name as in controller.Observer.
func (q *clientQuotas) changed(kind, name string, values map[string]string) {
	limits := config.QuotasOf(values)
	if kind == znode.IPs {
		q.address(name, limits.ConnectionRate)
		return
	}
	e := quota.Entity{Client: quotaName(name)}
	if kind == znode.Users {
		user, client, _ := controller.SplitEntityNames(name)
		e = quota.Entity{User: quotaName(user), Client: quotaName(client)}
	}
	set := map[quota.Kind]float64{}
	for kind, limit := range map[quota.Kind]*float64{
		quota.Produce: limits.ProducerByteRate, quota.Fetch: limits.ConsumerByteRate, quota.Request: limits.RequestPercentage,
		quota.Mutations: limits.MutationRate,
	} {
		if limit != nil {
			set[kind] = *limit
		}
	}
	q.clients.Set(e, set)
}

// quotaName is what clients are known by of whom the controller has this name.
func quotaName(name string) string {
	if name == controller.Default {
		return quota.Default
	}
	return controller.PlainName(name)
}

func (q *clientQuotas) address(name string, rate *float64) {
	limit := -1.0
	if rate != nil {
		limit = *rate
	}
	if name == znode.Default {
		q.connections.SetRest(limit)
		return
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		q.logger.Warn("the connection rate of what is no address has no effect", zap.String("name", name))
		return
	}
	q.connections.Set(addr, limit)
}
