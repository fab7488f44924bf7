package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// folder is where the etcd in this process keeps its files. A lock in it says that it is in
// use: etcd itself would wait for ever for a second process to end.
type folder struct {
	path string
	temp bool // removed at the end
	lock *os.File
}

const (
	lockName   = "lock"
	tempPrefix = "symphony-control-"
	// roomMin is what a place must have free: a container's /dev/shm may be tiny.
	roomMin = 256 << 20
	// litter is how old a temporary folder without a lock must be to be nobody's.
	litter = time.Hour
)

// openFolder takes the configured one, and makes it if need be.
func openFolder(path string) (*folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("the control plane's data: %w; control.data (--data) must be a folder that can be made and written", err)
	}
	f := &folder{path: path}
	var err error
	if f.lock, err = takeLock(filepath.Join(path, lockName)); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("the control plane's data in %s is in use by another process: end it, or give this one a folder of its own (control.data) or none (control.ephemeral)", path)
	}
	if err != nil {
		return nil, fmt.Errorf("the control plane's data: %w; control.data (--data) must be a folder that can be made and written", err)
	}
	return f, nil
}

// tempFolder makes one that is in memory where the system has a place for that, and removes
// those that killed processes left.
func tempFolder() (*folder, error) {
	var errs []error
	for _, root := range []string{"/dev/shm", os.TempDir()} {
		sweep(root)
		if err := room(root); err != nil {
			errs = append(errs, err)
			continue
		}
		path, err := os.MkdirTemp(root, tempPrefix)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f := &folder{path: path, temp: true}
		// Locked under another name first: a sweep takes a lock that nobody holds.
		if f.lock, err = takeLock(filepath.Join(path, "new")); err == nil {
			err = os.Rename(f.lock.Name(), filepath.Join(path, lockName))
		}
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
		f.close()
	}
	return nil, fmt.Errorf("no place for the control plane's data: %w", errors.Join(errs...))
}

func room(root string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		return fmt.Errorf("%s: %w", root, err)
	}
	if free := int64(fs.Bavail) * int64(fs.Bsize); free < roomMin {
		return fmt.Errorf("%s has %d MiB free, and %d are wanted", root, free>>20, roomMin>>20)
	}
	return nil
}

func takeLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// sweep removes temporary folders whose process has ended without removing them.
func sweep(root string) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if _, err := os.Stat(filepath.Join(path, lockName)); err != nil {
			if time.Since(info.ModTime()) < litter {
				continue // it may be on its way
			}
		}
		if lock, err := takeLock(filepath.Join(path, lockName)); err == nil {
			os.RemoveAll(path)
			lock.Close()
		}
	}
}

// inMemory is whether the files are memory only.
func (f *folder) inMemory() bool { return strings.HasPrefix(f.path, "/dev/shm/") }

// close gives the folder up.
func (f *folder) close() error {
	var err error
	if f.temp {
		err = os.RemoveAll(f.path)
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return err
}
