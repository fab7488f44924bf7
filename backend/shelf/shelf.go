package shelf

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"gocloud.dev/blob"

	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Config of a Shelf. Zero values mean the defaults in brackets.
type Config struct {
	Dir      string // nobody else's
	Bytes    int64  // most that is kept [20 GiB]
	Parallel int    // models that are fetched at a time [4]
	Rate     int64  // bytes per second of all together [any]
	// Buckets opens an object store [those of gocloud.dev/blob that are built in].
	Buckets func(ctx context.Context, u *url.URL) (*blob.Bucket, error)
	// Warn is told what is no reason to stop [nobody is].
	Warn func(err error)
}

// bytesDefault is Config.Bytes where that is 0.
const bytesDefault = 20 << 30

// Shelf keeps files of models.
type Shelf struct {
	c     Config
	lock  *os.File
	turns chan struct{} // as many as are fetched at a time
	rate  rate

	mu       sync.Mutex // Guards what follows.
	items    map[catalog.Digest]*item
	kept     int64                     // bytes of all items
	reserved int64                     // of those that are being fetched
	origins  map[string]catalog.Digest // what came from where last; see origin
	fetching map[string]chan struct{}  // by what is fetched; closed at its end
}

// item is what lies under a digest.
type item struct {
	digest catalog.Digest
	bytes  int64
	used   time.Time // last
	users  int
}

// Open takes a folder, and removes what a crash has left in it.
func Open(c Config) (*Shelf, error) {
	if c.Bytes <= 0 {
		c.Bytes = bytesDefault
	}
	if c.Parallel <= 0 {
		c.Parallel = 4
	}
	if c.Buckets == nil {
		c.Buckets = openBucket
	}
	if c.Warn == nil {
		c.Warn = func(error) {}
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("model cache: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(c.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("model cache: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("model cache %s: another process has it (%w): give each backend a folder of its own by backend.cache", c.Dir, err)
	}
	s := &Shelf{c: c, lock: lock, turns: make(chan struct{}, c.Parallel), rate: rate{perSecond: c.Rate}, items: map[catalog.Digest]*item{}, origins: map[string]catalog.Digest{}, fetching: map[string]chan struct{}{}}
	if err := s.look(); err != nil {
		return nil, errors.Join(fmt.Errorf("model cache: %w", err), s.Close())
	}
	return s, nil
}

// Close gives the folder back. Nothing is being fetched.
func (s *Shelf) Close() error { return s.lock.Close() }

// Bytes is how much is kept.
func (s *Shelf) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// look takes in what is whole and removes the rest.
func (s *Shelf) look() error {
	entries, err := os.ReadDir(s.c.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at, digest := filepath.Join(s.c.Dir, e.Name()), catalog.Digest(e.Name())
		if !e.IsDir() || !digest.Valid() && !strings.HasPrefix(e.Name(), partPrefix) {
			continue // not ours
		}
		if digest.Valid() {
			bytes, used, err := whole(at, digest)
			if err == nil {
				s.items[digest] = &item{digest: digest, bytes: bytes, used: used}
				s.kept += bytes
				continue
			}
			s.c.Warn(fmt.Errorf("model cache: %s is fetched anew: %w", at, err))
		}
		if err := os.RemoveAll(at); err != nil {
			return err
		}
	}
	if err := s.readOrigins(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.roomLocked(0); err != nil {
		s.c.Warn(err)
	}
	return nil
}

// Fetch has the files of a model's version in a folder, which stays until release is called.
// progress is told of bytes now and then, at most once a second.
func (s *Shelf) Fetch(ctx context.Context, source *catalog.Source, progress func(done, total int64)) (dir string, release func(), err error) {
	if err := checkVersion(source.Version); err != nil {
		return "", nil, err
	}
	if source.Digest != "" && !source.Digest.Valid() {
		return "", nil, fmt.Errorf("%.80q is no digest", source.Digest)
	}
	what := source.URL + "\n" + source.Version + "\n" + string(source.Digest)
	for {
		s.mu.Lock()
		if it := s.items[source.Digest]; it != nil {
			defer s.mu.Unlock()
			return s.lendLocked(it)
		}
		other := s.fetching[what]
		if other == nil {
			s.fetching[what] = make(chan struct{})
		}
		s.mu.Unlock()
		if other == nil {
			break
		}
		select { // who fetches the same
		case <-other:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
	defer func() {
		s.mu.Lock()
		close(s.fetching[what])
		delete(s.fetching, what)
		s.mu.Unlock()
	}()
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
	nice.Run(nice.Most, func() { dir, release, err = s.fetch(ctx, source, progress) })
	if err != nil && ctx.Err() == nil {
		if dir, release, ok := s.last(source, err); ok {
			return dir, release, nil
		}
	}
	return dir, release, err
}

// lendLocked lets somebody have an item. Caller holds mu.
func (s *Shelf) lendLocked(it *item) (dir string, release func(), err error) {
	it.users++
	it.used = time.Now()
	at := filepath.Join(s.c.Dir, string(it.digest))
	return filepath.Join(at, filesDir), sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		it.users--
		it.used = time.Now()
		_ = os.Chtimes(at, it.used, it.used) // for the next life
	}), nil
}

// roomLocked removes what nobody has, the least recently used first, until there is room for so
// many bytes. Caller holds mu.
func (s *Shelf) roomLocked(bytes int64) error {
	if bytes > s.c.Bytes {
		return fmt.Errorf("it has %s, and the cache keeps at most %s: raise backend.cache_size", inMiB(bytes), inMiB(s.c.Bytes))
	}
	for s.kept+s.reserved+bytes > s.c.Bytes {
		var oldest *item
		for _, it := range s.items {
			if it.users == 0 && (oldest == nil || it.used.Before(oldest.used)) {
				oldest = it
			}
		}
		if oldest == nil {
			return fmt.Errorf("it needs %s, and the cache's %s are in use: unload models, or raise backend.cache_size", inMiB(bytes), inMiB(s.c.Bytes))
		}
		delete(s.items, oldest.digest)
		s.kept -= oldest.bytes
		if err := os.RemoveAll(filepath.Join(s.c.Dir, string(oldest.digest))); err != nil {
			return fmt.Errorf("model cache: %w", err)
		}
	}
	return nil
}

func inMiB(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
