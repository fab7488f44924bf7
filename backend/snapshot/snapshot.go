// Package snapshot keeps copies of the models that are served, in a folder of this process. What a
// repository's owner does to the files there touches a served model only when it is loaded again.
//
// Rejected: weights in memory (AddExternalInitializersFromFilesInMemory). Each session of each device then
// has its own, where a mapped file is once in the page cache and can leave it; and a device that is
// brought back, or a session that is made on demand, would need the bytes again: kept in memory all
// along, or read from files that are others by then.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/backend/repository"
)

// Store is the folder. It is made when it is needed first, below Base; "" is a temporary folder of the
// system: one that is on disk where there is one, as copies may be large.
type Store struct {
	Base string // Immutable.

	mu   sync.Mutex // Guards what follows.
	at   *folder    // nil: it is not made yet
	last uint64     // number of the last copy
	over bool       // Close was called
}

var errOver = errors.New("the backend has ended")

// folder is one that is made and locked: its process lives.
type folder struct {
	dir  string
	lock *os.File
}

const (
	prefix   = "symphony-models-"
	lockFile = "lock"
	// young is how long a folder without a lock is left alone: another process may be making it.
	young = time.Hour
)

// open makes the folder, and removes those of processes that were killed.
func open(base string) (*folder, error) {
	if base == "" {
		base = temporary()
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, fmt.Errorf("a folder for the models that are served: %w; say where by backend.cache", err)
	}
	sweep(base)
	for {
		s, err := begin(base)
		if err != nil {
			return nil, fmt.Errorf("a folder for the models that are served: %w; say where by backend.cache", err)
		}
		if s != nil {
			return s, nil
		}
	}
}

// begin makes a folder and locks it; nil: another process has swept it away meanwhile.
func begin(base string) (*folder, error) {
	dir, err := os.MkdirTemp(base, prefix) // for its owner alone: 0700
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if _, gone := os.Stat(lock.Name()); err != nil || gone != nil {
		_ = lock.Close()
		return nil, nil
	}
	return &folder{dir, lock}, nil
}

// temporary is where large files go that live as long as the process.
func temporary() string {
	const large = "/var/tmp" // of a host whose /tmp may be in memory
	if os.Getenv("TMPDIR") == "" && unix.Access(large, unix.W_OK|unix.X_OK) == nil {
		return large
	}
	return os.TempDir()
}

// sweep removes the folders whose processes are gone.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return // making a folder there says what is wrong
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.IsDir() {
			continue
		}
		if at := filepath.Join(base, e.Name()); abandoned(at) {
			_ = os.RemoveAll(at) // one of another user's stays
		}
	}
}

// abandoned reports whether a folder's process is gone.
func abandoned(dir string) bool {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		info, e := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist) && e == nil && time.Since(info.ModTime()) > young
	}
	defer lock.Close()
	return unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// Take copies a version of a model of a repository: see repository.Snapshot. The copy stays until release.
func (s *Store) Take(ctx context.Context, m *repository.Model) (own repository.Model, release func(), err error) {
	into, err := s.next()
	if err != nil {
		return own, nil, fmt.Errorf("model %s: a copy of it, to serve: %w", m.Spec.Key(), err)
	}
	remove := func() { _ = os.RemoveAll(into) } // what stays goes with the Store
	own, err = repository.Snapshot(ctx, filepath.Dir(m.Dir), filepath.Base(m.Dir), m.Spec.Version, into)
	if err != nil {
		remove()
		return own, nil, err
	}
	return own, sync.OnceFunc(remove), nil
}

// next makes a folder for a copy.
func (s *Store) next() (dir string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return "", errOver
	}
	if s.at == nil {
		if s.at, err = open(s.Base); err != nil {
			return "", err
		}
	}
	s.last++
	dir = filepath.Join(s.at.dir, strconv.FormatUint(s.last, 10))
	return dir, os.Mkdir(dir, 0o700)
}

// Close removes all of it. A Take that comes later fails: its folder would stay.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.at == nil {
		return nil
	}
	at := s.at
	s.at = nil
	return errors.Join(os.RemoveAll(at.dir), at.lock.Close())
}
