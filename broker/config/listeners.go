package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Listener is a socket that the broker listens on and what it tells clients about it.
type Listener struct {
	Name           string // as in listeners, upper case
	Host           string // "" = every address
	Port           int    // 0 = any free port
	Protocol       string // PLAINTEXT
	AdvertisedHost string // "" = the local address of the client's own connection
	AdvertisedPort int    // 0 = the bound port
}

// Listeners returns the listeners to bind, in the order written.
func (s *Snapshot) Listeners() []Listener { return slices.Clone(s.listeners) }

// InterBrokerListener returns the name of the listener that other brokers are told.
func (s *Snapshot) InterBrokerListener() string { return s.interName }

// endpointForm is NAME://host:port; a host in brackets is an IPv6 address.
var endpointForm = regexp.MustCompile(`^([^:/]*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)$`)

type endpoint struct {
	name, host string
	port       int
}

// parseEndpoints reads listeners or advertised.listeners; the error completes "allowed: ".
func parseEndpoints(list []string) ([]endpoint, error) {
	var all []endpoint
	for _, item := range list {
		m := endpointForm.FindStringSubmatch(item)
		if m == nil {
			return nil, fmt.Errorf("NAME://host:port, comma-separated (unable to parse %s to a broker endpoint)", item)
		}
		port, err := strconv.Atoi(m[3])
		if err != nil || port < 0 || port > 65535 {
			return nil, fmt.Errorf("a port from 0 to 65535 (in %s)", item)
		}
		if m[1] == "" {
			return nil, fmt.Errorf("a listener name before :// (in %s)", item)
		}
		all = append(all, endpoint{strings.ToUpper(m[1]), m[2], port})
	}
	return all, nil
}

// buildListeners derives the listeners from their keys, with Kafka's rules.
func (s *Snapshot) buildListeners() error {
	protocols, err := s.protocols()
	if err != nil {
		return err
	}
	bound, err := s.endpoints(listenersKey)
	if err != nil {
		return err
	}
	if len(bound) == 0 {
		return s.invalid(listenersKey, "at least one listener that is not in controller.listener.names")
	}
	if err := s.distinct(bound); err != nil {
		return err
	}
	advertised, err := s.advertised(bound)
	if err != nil {
		return err
	}
	s.listeners = nil
	for _, e := range bound {
		protocol, err := s.protocolOf(listenersKey, e.name, protocols)
		if err != nil {
			return err
		}
		l := Listener{Name: e.name, Host: e.host, Port: e.port, Protocol: protocol}
		if !wildcard(e.host) {
			l.AdvertisedHost = e.host
		}
		if a, ok := advertised[e.name]; ok {
			l.AdvertisedHost, l.AdvertisedPort = a.host, a.port
		}
		s.listeners = append(s.listeners, l)
	}
	return s.chooseInterBroker(protocols, bound, advertised)
}

// endpoints reads one of the two keys, without the listeners of KRaft controllers, which nothing is bound for.
func (s *Snapshot) endpoints(key string) ([]endpoint, error) {
	all, err := parseEndpoints(asList(s.value(key)))
	if err != nil {
		return nil, s.invalid(key, "%v", err)
	}
	controllers := asList(s.value("controller.listener.names"))
	all = slices.DeleteFunc(all, func(e endpoint) bool {
		return slices.ContainsFunc(controllers, func(name string) bool { return strings.EqualFold(name, e.name) })
	})
	names := map[string]bool{}
	for _, e := range all {
		if names[e.name] {
			return nil, s.invalid(key, "each listener must have a different name (%s is there twice)", e.name)
		}
		names[e.name] = true
	}
	return all, nil
}

// distinct refuses two listeners on one port, unless one is IPv4 and the other IPv6.
func (s *Snapshot) distinct(bound []endpoint) error {
	byPort := map[int][]endpoint{}
	for _, e := range bound {
		if e.port == 0 {
			continue
		}
		others := byPort[e.port]
		byPort[e.port] = append(others, e)
		switch {
		case len(others) == 0:
		case len(others) > 1 || family(e.host) == 0 || family(others[0].host) == 0:
			return s.invalid(listenersKey, "each listener must have a different port (%d is there twice)", e.port)
		case family(e.host) == family(others[0].host):
			return s.invalid(listenersKey,
				"if you have two listeners on the same port then one needs to be IPv4 and the other IPv6 (port %d)", e.port)
		}
	}
	return nil
}

// family is 4 or 6 for an IP address, 0 for anything else.
func family(host string) int {
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return 0
	case addr.Is4():
		return 4
	}
	return 6
}

func wildcard(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}

// advertised reads advertised.listeners by name.
func (s *Snapshot) advertised(bound []endpoint) (map[string]endpoint, error) {
	if s.value(advertisedListeners) == nil {
		return nil, nil
	}
	list, err := s.endpoints(advertisedListeners)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, s.invalid(advertisedListeners, "at least one listener")
	}
	byName := map[string]endpoint{}
	for _, e := range list {
		if !slices.ContainsFunc(bound, func(b endpoint) bool { return b.name == e.name }) {
			return nil, s.invalid(advertisedListeners, "names defined in listeners: %s", joinNames(bound))
		}
		if wildcard(e.host) && e.host != "" {
			return nil, s.invalid(advertisedListeners,
				"a routable address; it cannot be the nonroutable meta-address %s", e.host)
		}
		byName[e.name] = e
	}
	return byName, nil
}

func joinNames(list []endpoint) string {
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.name
	}
	return strings.Join(names, ", ")
}

const protocolMap = "listener.security.protocol.map"

var protocolNames = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// protocols reads listener.security.protocol.map.
func (s *Snapshot) protocols() (map[string]string, error) {
	byName := map[string]string{}
	for _, item := range asList(s.value(protocolMap)) {
		i := strings.LastIndexByte(item, ':')
		if i < 0 {
			return nil, s.invalid(protocolMap, "NAME:PROTOCOL, comma-separated")
		}
		name, protocol := strings.ToUpper(strings.TrimSpace(item[:i])), strings.ToUpper(strings.TrimSpace(item[i+1:]))
		if !slices.Contains(protocolNames, protocol) {
			return nil, s.invalid(protocolMap, "a protocol of %s (invalid security protocol %s)",
				strings.Join(protocolNames, ", "), protocol)
		}
		byName[name] = protocol
	}
	return byName, nil
}

// protocolOf is the protocol of a listener that will be bound; only PLAINTEXT exists.
func (s *Snapshot) protocolOf(key, name string, protocols map[string]string) (string, error) {
	protocol, ok := protocols[name]
	if !ok {
		return "", s.invalid(key, "names in %s (no security protocol defined for listener %s)", protocolMap, name)
	}
	if protocol != "PLAINTEXT" {
		return "", s.invalid(key, "listeners of protocol PLAINTEXT (%s, and listener %s is of %s)",
			refusePlaintextOnly, name, protocol)
	}
	return protocol, nil
}

const interBrokerName = "inter.broker.listener.name"

func (s *Snapshot) chooseInterBroker(protocols map[string]string, bound []endpoint, advertised map[string]endpoint) error {
	name, _ := s.value(interBrokerName).(string)
	key := interBrokerName
	if name = strings.ToUpper(strings.TrimSpace(name)); name == "" {
		key, name = "security.inter.broker.protocol", s.value("security.inter.broker.protocol").(string)
	} else if _, both := s.static["security.inter.broker.protocol"]; both {
		return s.invalid(key, "only one of inter.broker.listener.name and security.inter.broker.protocol")
	} else if protocols[name] == "" {
		return s.invalid(key, "a name in %s", protocolMap)
	}
	known := bound
	if advertised != nil {
		known = slices.DeleteFunc(slices.Clone(bound), func(e endpoint) bool { _, ok := advertised[e.name]; return !ok })
	}
	if !slices.ContainsFunc(known, func(e endpoint) bool { return e.name == name }) {
		return s.invalid(interBrokerName, "a listener name defined in advertised.listeners: %s", joinNames(known))
	}
	s.interName = name
	return nil
}
