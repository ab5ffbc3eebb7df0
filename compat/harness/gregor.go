package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// startGregor starts the built binary on a free port and learns its address from the ready file.
func (b *Broker) startGregor() error {
	addr := b.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	config, err := b.writeProperties(map[string]string{
		"listeners": "PLAINTEXT://" + addr,
		"log.dirs":  strings.Join(b.DataDirs, ","),
	})
	if err != nil {
		return err
	}
	readyFile := filepath.Join(b.Dir, "ready")
	if err := os.Remove(readyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	ready := func() error { return b.readAddresses(readyFile) }
	args := append([]string{"serve", "--config", config, "--ready-file", readyFile}, b.options.Args...)
	return b.launch(ready, Binary(), args...)
}

// readAddresses reads the ready file: a line "NAME host:port" for each listener.
func (b *Broker) readAddresses(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	addrs, first := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		name, addr, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			return fmt.Errorf("the ready file %s has the line %q, not NAME host:port", path, line)
		}
		addrs[name] = addr
		if first == "" {
			first = addr
		}
	}
	if first == "" {
		return fmt.Errorf("the ready file %s is empty", path)
	}
	b.Addr, b.Addrs = first, addrs
	return nil
}
