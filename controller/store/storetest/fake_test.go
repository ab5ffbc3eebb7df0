package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/gregor-broker/gregor/controller/store"
	"github.com/gregor-broker/gregor/wire/clock"
)

func TestFakePassesTheSuite(t *testing.T) {
	Suite(t, func(t *testing.T) Harness {
		f := NewFake(clock.System)
		c := f.Client()
		return Harness{
			Store:  c,
			Other:  func() store.Store { return f.Client() },
			Expire: func() { c.Expire(); c.Renew() },
		}
	})
}

func TestFakeLosesRepliesAndRequests(t *testing.T) {
	f := NewFake(clock.System)
	fault := LoseReply
	f.OnCommit = func(*Client, []store.Op) Fault { return fault }
	c := f.Client()
	if _, err := c.Commit(context.Background(), node("/done")); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("lost reply: %v", err)
	}
	fault = LoseRequest
	if _, err := c.Commit(context.Background(), node("/not")); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("lost request: %v", err)
	}
	fault = NoFault
	shows(t, c, "/done", "", 0)
	shows(t, c, "/not", "", -1)
	c.Expire()
	if _, err := c.Commit(context.Background(), node("/x")); !errors.Is(err, store.ErrSessionExpired) {
		t.Errorf("without a session: %v", err)
	}
}
