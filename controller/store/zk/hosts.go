package zk

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/wire/clock"
)

const defaultPort = "2181"

// ParseConnect splits a value of zookeeper.connect, "host:port,host:port/chroot", into the servers' addresses and the chroot,
// which is "" if there is none. A host without a port has port 2181.
func ParseConnect(connect string) (servers []string, chroot string, err error) {
	list := connect
	if i := strings.IndexByte(connect, '/'); i >= 0 {
		list, chroot = connect[:i], strings.TrimSuffix(connect[i:], "/")
		if chroot != "" && !store.ValidPath(chroot) {
			return nil, "", fmt.Errorf("zookeeper.connect: %q is no path for a chroot", connect[i:])
		}
	}
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		server, err := address(part)
		if err != nil {
			return nil, "", fmt.Errorf("zookeeper.connect: %q is no host:port: %w", part, err)
		}
		servers = append(servers, server)
	}
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("zookeeper.connect: %q names no server", connect)
	}
	return servers, chroot, nil
}

func address(part string) (string, error) {
	host, port, err := net.SplitHostPort(part)
	if err != nil {
		var alone error
		if host, port, alone = net.SplitHostPort(part + ":" + defaultPort); alone != nil {
			return "", err
		}
	}
	if host == "" {
		return "", fmt.Errorf("the host is empty")
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

// pause is how long the library waits when hosts tells it that it has tried every server.
const pause = time.Second

// hosts gives the library one server after the other, by name: names are looked up anew for each connection, and TLS compares
// them. After a connection that lasted, the next server is tried without a pause. Safe for concurrent use.
type hosts struct {
	clock clock.Clock
	mu    struct {
		sync.Mutex
		servers   []string
		at        int
		tries     int // since the last connection
		connected time.Duration
	}
}

// Init implements zk.HostProvider; the library has shuffled servers.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.servers, h.mu.connected = servers, h.clock.Monotonic()-pause
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.mu.servers)
}

// Next implements zk.HostProvider.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.mu.servers[h.mu.at]
	h.mu.at = (h.mu.at + 1) % len(h.mu.servers)
	if h.mu.tries == 0 {
		retryStart = h.clock.Monotonic()-h.mu.connected < pause
	} else {
		retryStart = h.mu.tries%len(h.mu.servers) == 0
	}
	h.mu.tries++
	return server, retryStart
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.tries, h.mu.connected = 0, h.clock.Monotonic()
}
