//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gregor-broker/gregor/compat/harness"
)

// profiled has single gregor brokers serve profiles if they are asked for.
func profiled(s *settings, make func(name, dir string) (*server, error)) func(name, dir string) (*server, error) {
	if s.profiles == "" {
		return make
	}
	return func(name, dir string) (*server, error) {
		t, err := make(name, dir)
		if err != nil || name != gregorName || t.members != nil {
			return t, err
		}
		port, err := harness.FreePort()
		t.pprof = local(port)
		return t, err
	}
}

func (s *server) profiling() []string {
	if s.pprof == "" {
		return nil
	}
	return []string{"--pprof", s.pprof}
}

// profile takes a CPU profile from now on, until what it returns is called. Rows that start their broker are profiled once it runs.
func (b *bench) profile(r row, t *server, keep bool) (stop func() error) {
	if t.pprof == "" || !keep {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	name := strings.NewReplacer(" ", "-", ",", "", ":", "").Replace(r.name) + ".pprof"
	go func() { done <- takeProfile(ctx, t.pprof, filepath.Join(b.settings.profiles, name)) }()
	return func() error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// profileSeconds is how long a profile takes: no longer than most rows.
const profileSeconds = 3

func takeProfile(ctx context.Context, addr, path string) error {
	for {
		err := writeProfile(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, profileSeconds), path)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(100 * time.Millisecond) // it does not run yet
	}
}

func writeProfile(ctx context.Context, url, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
