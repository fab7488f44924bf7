package shelf

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Names on the shelf.
const (
	partPrefix   = "part-"
	filesDir     = "files"
	manifestFile = "manifest"
)

// piece is what is read at a time: between two of them a fetch may end.
const piece = 256 << 10

// tellEvery is the least time between two calls of progress.
const tellEvery = time.Second

// fetching is one fetch on its way.
type fetching struct {
	s        *Shelf
	ctx      context.Context
	src      source
	dir      string // of the files
	done     int64
	total    int64
	told     time.Time
	progress func(done, total int64)
	buffer   []byte
}

// fetch gets a model's files, verifies them and puts them on the shelf.
func (s *Shelf) fetch(ctx context.Context, from *catalog.Source, progress func(done, total int64)) (string, func(), error) {
	src, err := s.open(ctx, from.URL)
	if err != nil {
		return "", nil, err
	}
	defer src.close()
	objects, total, err := list(ctx, src, from.Version)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", withoutQuery(from.URL), err)
	}
	if from.Bytes > 0 && total != from.Bytes {
		return "", nil, fmt.Errorf("%s: it has %d bytes, and %d were ordered: its files have changed", withoutQuery(from.URL), total, from.Bytes)
	}
	s.mu.Lock()
	err = s.roomLocked(total)
	if err == nil {
		s.reserved += total
	}
	s.mu.Unlock()
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", withoutQuery(from.URL), err)
	}
	defer func() {
		s.mu.Lock()
		s.reserved -= total
		s.mu.Unlock()
	}()
	part, err := os.MkdirTemp(s.c.Dir, partPrefix)
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(part) // nothing, once it was renamed
	f := &fetching{s: s, ctx: ctx, src: src, dir: filepath.Join(part, filesDir), total: total, progress: progress, buffer: make([]byte, piece)}
	text, err := f.all(objects)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", withoutQuery(from.URL), err)
	}
	digest := catalog.DigestOf(text)
	if from.Digest != "" && digest != from.Digest {
		return "", nil, fmt.Errorf("%s: its files have digest %s, and %s was ordered: they have changed, or are damaged", withoutQuery(from.URL), digest, from.Digest)
	}
	if err := firstOf(write(filepath.Join(part, manifestFile), text), syncDir(f.dir), syncDir(part)); err != nil {
		return "", nil, err
	}
	dir, release, err := s.put(part, digest, total)
	if err == nil && from.Digest == "" {
		s.cameFrom(from, digest)
	}
	return dir, release, err
}

// put gives what was fetched its name.
func (s *Shelf) put(part string, digest catalog.Digest, bytes int64) (string, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[digest]; it != nil { // under another address
		return s.lendLocked(it)
	}
	if err := firstOf(os.Rename(part, filepath.Join(s.c.Dir, string(digest))), syncDir(s.c.Dir)); err != nil {
		return "", nil, err
	}
	it := &item{digest: digest, bytes: bytes}
	s.items[digest] = it
	s.kept += bytes
	return s.lendLocked(it)
}

// all gets the files, and makes their manifest.
func (f *fetching) all(objects []object) ([]byte, error) {
	f.tell(true)
	var files []file
	for _, o := range objects {
		got, err := f.one(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.path, err)
		}
		files = append(files, got)
	}
	f.tell(true)
	return manifest(files), nil
}

func (f *fetching) one(o object) (file, error) {
	to := filepath.Join(f.dir, filepath.FromSlash(o.path))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return file{}, err
	}
	in, err := f.src.open(f.ctx, o.path)
	if err != nil {
		return file{}, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return file{}, err
	}
	h := sha256.New()
	n, err := f.copy(io.MultiWriter(out, h), in, o.size)
	err = firstOf(err, sized(o, n), out.Sync())
	if closed := out.Close(); err == nil {
		err = closed
	}
	return file{o.path, n, [sha256.Size]byte(h.Sum(nil))}, err
}

// copy copies at most size bytes and one: a file that grows is seen, and does not fill the disk.
func (f *fetching) copy(out io.Writer, in io.Reader, size int64) (n int64, err error) {
	in = io.LimitReader(in, size+1)
	for {
		if err := f.ctx.Err(); err != nil {
			return n, err
		}
		k, err := in.Read(f.buffer)
		if k > 0 {
			if _, err := out.Write(f.buffer[:k]); err != nil {
				return n, err
			}
			n += int64(k)
			f.done += int64(k)
			f.tell(false)
			if err := f.s.rate.take(f.ctx, k); err != nil {
				return n, err
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func (f *fetching) tell(now bool) {
	if f.progress != nil && (now || time.Since(f.told) >= tellEvery) {
		f.told = time.Now()
		f.progress(f.done, f.total)
	}
}

// rate bounds bytes per second; 0: it does not.
type rate struct {
	perSecond int64

	mu   sync.Mutex
	next time.Time // when those that were taken have passed
}

func (r *rate) take(ctx context.Context, n int) error {
	if r.perSecond <= 0 {
		return nil
	}
	r.mu.Lock()
	now := time.Now()
	if r.next.Before(now) {
		r.next = now
	}
	r.next = r.next.Add(time.Duration(int64(n) * int64(time.Second) / r.perSecond))
	wait := r.next.Sub(now)
	r.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// whole looks whether what lies under a digest is what it says: the manifest is of that digest,
// and all its files are there in their sizes.
func whole(at string, digest catalog.Digest) (total int64, used time.Time, err error) {
	text, err := os.ReadFile(filepath.Join(at, manifestFile))
	if err != nil {
		return 0, used, err
	}
	if catalog.DigestOf(text) != digest {
		return 0, used, fmt.Errorf("its manifest is of another digest")
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var sum string
		var size int64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d ", &sum, &size); err != nil {
			return 0, used, err
		}
		path := strings.SplitN(lines.Text(), " ", 3)[2]
		info, err := os.Lstat(filepath.Join(at, filesDir, filepath.FromSlash(path)))
		if err != nil {
			return 0, used, err
		}
		if info.Size() != size || !info.Mode().IsRegular() {
			return 0, used, fmt.Errorf("%s has %d bytes, %d were put there", path, info.Size(), size)
		}
		total += size
	}
	info, err := os.Stat(at)
	if err != nil {
		return 0, used, err
	}
	return total, info.ModTime(), nil
}

func write(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return firstOf(err, f.Sync(), f.Close())
}

// syncDir has a folder's names on disk.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
