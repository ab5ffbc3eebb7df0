// Package checkpoint is the small files of a log directory: offsets per partition, meta.properties, the
// clean-shutdown marker, and partition.metadata.
package checkpoint

import (
	"path"

	"github.com/gregor-broker/gregor/log/vfs"
)

// Write replaces the file at name: when it returns, content is durable; after a crash the file is the old or the new one.
// It writes name.tmp, syncs it, renames it, and syncs the directory, as Kafka does.
func Write(fs vfs.FS, name string, content []byte) error {
	if err := Stage(fs, name, content, true); err != nil {
		return err
	}
	if err := Publish(fs, name); err != nil {
		return err
	}
	return fs.SyncDir(path.Dir(name))
}

// Stage writes name.tmp. Who stages many files without sync, to sync the file system once, must do so before Publish.
func Stage(fs vfs.FS, name string, content []byte, sync bool) error {
	f, err := fs.Create(name + ".tmp")
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Publish renames name.tmp to name.
func Publish(fs vfs.FS, name string) error { return fs.Rename(name+".tmp", name) }
