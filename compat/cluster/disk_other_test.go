//go:build !linux

package cluster

import (
	"errors"
	"testing"
)

// disk is a file system that a test has to itself.
type disk struct{ dir string }

func mountDisk(*testing.T, int64) (*disk, error) {
	return nil, errors.New("no file system is mounted on this system")
}

func (*disk) resize(int64) error { return errors.ErrUnsupported }
func (*disk) fill() error        { return errors.ErrUnsupported }
