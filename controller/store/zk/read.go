package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	zoo "github.com/go-zookeeper/zk"
	"github.com/gregor-broker/gregor/controller/store"
)

// Read implements store.Store. Requests that a broken connection cost are sent again within the session.
func (s *Store) Read(ctx context.Context, reqs ...store.Req) ([]store.Node, error) {
	in, err := s.present()
	if err != nil {
		return nil, err
	}
	nodes := make([]store.Node, len(reqs))
	todo := make([]int, len(reqs))
	for i := range reqs {
		todo[i] = i
	}
	for len(todo) > 0 {
		if todo, err = s.readAll(ctx, in, reqs, nodes, todo); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// readAll sends the requests whose indexes are in todo and returns those that got no answer.
func (s *Store) readAll(ctx context.Context, in *session, reqs []store.Req, nodes []store.Node, todo []int) (again []int, err error) {
	answers := make([]<-chan error, len(todo))
	for k, i := range todo {
		answers[k], err = in.begin(ctx, func(c *zoo.Conn) error {
			node, err := s.read(c, reqs[i])
			nodes[i] = node
			return err
		})
		if err != nil {
			return nil, given(ctx, err)
		}
	}
	for k, i := range todo {
		select {
		case err = <-answers[k]:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case err == nil:
		case disconnected(err):
			again = append(again, i)
		default:
			return nil, fmt.Errorf("read %s: %w", reqs[i].Path, reason(err))
		}
	}
	return again, nil
}

// given prefers the context's own words.
func given(ctx context.Context, err error) error {
	if errors.Is(err, errAbandoned) {
		return ctx.Err()
	}
	return err
}

// read asks for one node, on a goroutine that the library blocks.
func (s *Store) read(c *zoo.Conn, r store.Req) (store.Node, error) {
	node := store.Node{Path: r.Path}
	var st *zoo.Stat
	var err error
	if r.Kind == store.Children {
		node.Children, st, err = c.Children(s.at(r.Path))
	} else {
		node.Data, st, err = c.Get(s.at(r.Path))
	}
	switch {
	case err == nil:
		node.Exists, node.Stat = true, stat(st)
	case errors.Is(err, zoo.ErrNoNode), errors.Is(err, zoo.ErrInvalidPath):
		return store.Node{Path: r.Path}, nil
	}
	return node, err
}

func stat(st *zoo.Stat) store.Stat {
	return store.Stat{Czxid: st.Czxid, Mzxid: st.Mzxid, CtimeMs: st.Ctime, MtimeMs: st.Mtime, Version: st.Version,
		EphemeralOwner: st.EphemeralOwner}
}

// below returns a path of the servers as the caller knows it.
func (s *Store) below(path string) string {
	if rest := strings.TrimPrefix(path, s.root); rest != "" {
		return rest
	}
	return "/"
}

// reason puts an error of the library into the store's words.
func reason(err error) error {
	for _, pair := range []struct{ library, ours error }{
		{zoo.ErrNoNode, store.ErrNoNode},
		{zoo.ErrNodeExists, store.ErrExists},
		{zoo.ErrBadVersion, store.ErrVersion},
		{zoo.ErrNotEmpty, store.ErrNotEmpty},
		{zoo.ErrNoChildrenForEphemerals, store.ErrEphemeral},
		{zoo.ErrSessionExpired, store.ErrSessionExpired},
		{zoo.ErrNoAuth, errNoAuth},
		{zoo.ErrInvalidACL, errInvalidACL},
	} {
		if errors.Is(err, pair.library) {
			return pair.ours
		}
	}
	return err
}
