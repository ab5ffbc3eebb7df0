package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports that tests listen on are below those that the kernel gives to outgoing connections, one of which could take a port before it
// is used.
const firstPort, endOfPorts, portTries = 15_000, 32_000, 100

// reserved holds a UDP socket for each port that this process has been given. Nothing here speaks UDP, so the socket of the same number says
// to every other process whose tests look for a port that this one is taken, also while nobody listens on it: before its broker starts,
// and between two lives of it. The kernel frees it when the process ends.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreePort returns a port of 127.0.0.1 that nobody listens on, and that no test of any process gets from here until this process ends.
func FreePort() (int, error) { return FreePorts(1) }

// FreePorts returns the first of n such ports that follow each other.
func FreePorts(n int) (int, error) {
	var err error
	for range portTries {
		first := firstPort + rand.IntN(endOfPorts-firstPort-n)
		var sockets []net.PacketConn
		if sockets, err = reserve(first, n); err == nil {
			reserved.Lock()
			defer reserved.Unlock()
			reserved.sockets = append(reserved.sockets, sockets...)
			return first, nil
		}
	}
	return 0, err
}

// reserve takes n ports, all or none, until what it returns is closed.
func reserve(first, n int) ([]net.PacketConn, error) {
	sockets := make([]net.PacketConn, 0, n)
	for port := first; port < first+n; port++ {
		s, err := reserveOne(fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			release(sockets)
			return nil, err
		}
		sockets = append(sockets, s)
	}
	return sockets, nil
}

func release(sockets []net.PacketConn) {
	for _, s := range sockets {
		_ = s.Close()
	}
}

// reserveOne takes a port unless somebody has reserved it or listens on it.
func reserveOne(address string) (net.PacketConn, error) {
	s, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, l.Close()
}
