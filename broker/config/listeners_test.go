package config

import (
	"reflect"
	"testing"
)

func TestListeners(t *testing.T) {
	const threeNames = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,SECURE:SASL_SSL"
	plaintext := Listener{Name: "PLAINTEXT", Port: 9092, Protocol: "PLAINTEXT"}
	for _, c := range []struct {
		overrides []string
		want      []Listener
	}{
		{nil, []Listener{plaintext}},
		{[]string{"listeners=plaintext://:9092"}, []Listener{plaintext}},
		{[]string{"listeners=PLAINTEXT://0.0.0.0:0"}, []Listener{{"PLAINTEXT", "0.0.0.0", 0, "PLAINTEXT", "", 0}}},
		{[]string{"listeners=PLAINTEXT://[::]:9092"}, []Listener{{"PLAINTEXT", "::", 9092, "PLAINTEXT", "", 0}}},
		{[]string{"listeners=PLAINTEXT://127.0.0.1:9092"}, []Listener{{"PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT", "127.0.0.1", 0}}},
		{[]string{"listeners=PLAINTEXT://my_host:9092"}, []Listener{{"PLAINTEXT", "my_host", 9092, "PLAINTEXT", "my_host", 0}}},
		{[]string{threeNames, "listeners=PLAINTEXT://:0,EXTERNAL://:0"},
			[]Listener{{"PLAINTEXT", "", 0, "PLAINTEXT", "", 0}, {"EXTERNAL", "", 0, "PLAINTEXT", "", 0}}},
		{[]string{threeNames, "listeners=PLAINTEXT://127.0.0.1:9092,EXTERNAL://[::1]:9092"},
			[]Listener{{"PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT", "127.0.0.1", 0}, {"EXTERNAL", "::1", 9092, "PLAINTEXT", "::1", 0}}},
		{[]string{threeNames, "listeners=PLAINTEXT://:9092,EXTERNAL://:9093", "advertised.listeners=PLAINTEXT://a:1,EXTERNAL://b:1"},
			[]Listener{{"PLAINTEXT", "", 9092, "PLAINTEXT", "a", 1}, {"EXTERNAL", "", 9093, "PLAINTEXT", "b", 1}}},
		{[]string{"advertised.listeners=PLAINTEXT://:19092"}, []Listener{{"PLAINTEXT", "", 9092, "PLAINTEXT", "", 19092}}},
		{[]string{threeNames, "listeners=EXTERNAL://:9092", "inter.broker.listener.name=external"},
			[]Listener{{"EXTERNAL", "", 9092, "PLAINTEXT", "", 0}}},
		{[]string{"listeners=PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names=controller"}, []Listener{plaintext}},
		{[]string{zk, "listeners= PLAINTEXT://:9092 , "}, []Listener{plaintext}},
	} {
		s, _ := load(t, c.overrides...)
		if got := s.Listeners(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v:\n  got  %+v\n  want %+v", c.overrides, got, c.want)
		}
	}
}

func TestListenerErrors(t *testing.T) {
	const names = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,SECURE:SASL_SSL"
	for _, c := range []struct {
		overrides     []string
		key, complain string
	}{
		{[]string{"listeners=PLAINTEXT://:9092,PLAINTEXT://:9093"}, "listeners", "each listener must have a different name (PLAINTEXT is there twice)"},
		{[]string{"listeners=PLAINTEXT://:9092,EXTERNAL://:9093"}, "listeners", "names in listener.security.protocol.map (no security protocol defined for listener EXTERNAL)"},
		{[]string{names, "listeners=PLAINTEXT://:9092,EXTERNAL://:9092"}, "listeners", "each listener must have a different port (9092 is there twice)"},
		{[]string{names, "listeners=PLAINTEXT://a:9092,EXTERNAL://b:9092"}, "listeners", "each listener must have a different port (9092 is there twice)"},
		{[]string{names, "listeners=PLAINTEXT://127.0.0.1:9092,EXTERNAL://127.0.0.2:9092"}, "listeners",
			"if you have two listeners on the same port then one needs to be IPv4 and the other IPv6 (port 9092)"},
		{[]string{names, "listeners=SECURE://:9092"}, "listeners", "listeners of protocol PLAINTEXT (TLS and SASL do not exist yet, and listener SECURE is of SASL_SSL)"},
		{[]string{"listeners=SSL://:9092"}, "listeners", "listeners of protocol PLAINTEXT (TLS and SASL do not exist yet, and listener SSL is of SSL)"},
		{[]string{"listeners=foo"}, "listeners", "NAME://host:port, comma-separated (unable to parse foo to a broker endpoint)"},
		{[]string{"listeners=PLAINTEXT://localhost"}, "listeners", "NAME://host:port, comma-separated (unable to parse PLAINTEXT://localhost to a broker endpoint)"},
		{[]string{"listeners=PLAINTEXT://local host:1"}, "listeners", "NAME://host:port, comma-separated (unable to parse PLAINTEXT://local host:1 to a broker endpoint)"},
		{[]string{"listeners=PLAINTEXT://localhost:70000"}, "listeners", "a port from 0 to 65535 (in PLAINTEXT://localhost:70000)"},
		{[]string{"listeners=PLAINTEXT://localhost:-1"}, "listeners", "a port from 0 to 65535 (in PLAINTEXT://localhost:-1)"},
		{[]string{"listeners=://:9092"}, "listeners", "a listener name before :// (in ://:9092)"},
		{[]string{"listeners="}, "listeners", "a comma-separated list of at least one item"},
		{[]string{zk, "listeners="}, "listeners", "at least one listener that is not in controller.listener.names"},
		{[]string{"listeners=CONTROLLER://:9093", "controller.listener.names=CONTROLLER"}, "listeners", "at least one listener that is not in controller.listener.names"},
		{[]string{"listener.security.protocol.map=INTERNAL"}, "listener.security.protocol.map", "NAME:PROTOCOL, comma-separated"},
		{[]string{"listener.security.protocol.map=INTERNAL:FOO"}, "listener.security.protocol.map", "a protocol of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL (invalid security protocol FOO)"},
		{[]string{names, "listeners=EXTERNAL://:9092"}, "inter.broker.listener.name", "a listener name defined in advertised.listeners: EXTERNAL"},
		{[]string{"inter.broker.listener.name=OTHER"}, "inter.broker.listener.name", "a name in listener.security.protocol.map"},
		{[]string{names, "inter.broker.listener.name=EXTERNAL"}, "inter.broker.listener.name", "a listener name defined in advertised.listeners: PLAINTEXT"},
		{[]string{"inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=PLAINTEXT"}, "inter.broker.listener.name",
			"only one of inter.broker.listener.name and security.inter.broker.protocol"},
		{[]string{"advertised.listeners=PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners", "a routable address; it cannot be the nonroutable meta-address 0.0.0.0"},
		{[]string{"advertised.listeners=EXTERNAL://foo:9092"}, "advertised.listeners", "names defined in listeners: PLAINTEXT"},
		{[]string{"advertised.listeners=PLAINTEXT://a:1,PLAINTEXT://b:2"}, "advertised.listeners", "each listener must have a different name (PLAINTEXT is there twice)"},
		{[]string{"advertised.listeners="}, "advertised.listeners", "a comma-separated list of at least one item"},
	} {
		_, _, err := Load(Sources{Overrides: c.overrides})
		invalid, ok := err.(*Invalid)
		if !ok || invalid.Key != c.key || invalid.Allowed != c.complain {
			t.Errorf("%v:\n  got  %v\n  want %s: … allowed: %s", c.overrides, err, c.key, c.complain)
		}
	}
}
