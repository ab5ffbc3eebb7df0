package harness

import (
	"fmt"
	"net"
	"testing"
)

// TestFreePorts: a port that was given to somebody is given to nobody else, though nobody listens on it yet.
func TestFreePorts(t *testing.T) {
	first, err := FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	for port := first; port < first+3; port++ {
		if _, err := reserve(port, 1); err == nil {
			t.Errorf("port %d is given twice", port)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatalf("who got the port cannot listen on it: %v", err)
		}
		defer l.Close()
	}
}

// TestReserve: a port that somebody listens on is not given, and leaves those before it free.
func TestReserve(t *testing.T) {
	first, err := FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	release(reserved.sockets[len(reserved.sockets)-2:])
	reserved.sockets = reserved.sockets[:len(reserved.sockets)-2]
	other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+1))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := reserve(first, 2); err == nil {
		t.Fatalf("port %d is given though somebody listens on it", first+1)
	}
	kept, err := reserve(first, 1)
	if err != nil {
		t.Errorf("port %d is kept though nobody got it: %v", first, err)
	}
	release(kept)
}
