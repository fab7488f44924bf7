package regions

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Max is how many regions there may be.
const Max = 1024

const (
	nameMax = 256
	keyMax  = 255
)

// What errors wrap.
var (
	ErrUnknown = errors.New("unknown region")         // no such region
	ErrExists  = errors.New("region exists")          // the name is taken
	ErrInput   = errors.New("bad input")              // a name, key, size or offset that cannot be
	ErrFull    = errors.New("too many regions")       // Max of them are there
	ErrGone    = errors.New("the object has changed") // it is smaller than its region now
)

// Region is a piece of a shared memory object.
type Region struct {
	Name   string
	Key    string // of the object, as shm_open takes it
	Offset uint64 // in the object, bytes
	Size   uint64 // bytes
}

// Regions are those that are registered: safe for concurrent use.
type Regions struct {
	dir string // where objects are

	mu  sync.RWMutex // Guards all.
	all map[string]*open
}

type open struct {
	Region
	file *os.File
}

// New makes an empty set, of objects where Linux has them.
func New() *Regions { return at("/dev/shm") }

func at(dir string) *Regions { return &Regions{dir: dir, all: map[string]*open{}} }

// SameHost reports whether a client at remote, that was accepted at local, is on this host. Others could
// only mean memory that is not theirs. It cannot see through a proxy on this host.
func SameHost(local, remote net.Addr) bool {
	from, ok := remote.(*net.TCPAddr)
	if !ok {
		return remote != nil && remote.Network() == "unix"
	}
	to, ok := local.(*net.TCPAddr)
	return from.IP.IsLoopback() || ok && from.IP.Equal(to.IP)
}

// Register makes a region usable. Its object must be there, and hold it.
func (r *Regions) Register(g Region) error {
	if g.Name == "" || len(g.Name) > nameMax {
		return fmt.Errorf("%w: the region's name must have 1 to %d bytes", ErrInput, nameMax)
	}
	key := strings.TrimPrefix(g.Key, "/")
	if key == "" || len(key) > keyMax || key == "." || key == ".." || strings.ContainsAny(key, "/\x00") {
		return fmt.Errorf("%w: key %q: must be a name as shm_open takes it: /NAME, of at most %d bytes and no other slash", ErrInput, g.Key, keyMax)
	}
	if g.Size == 0 {
		return fmt.Errorf("%w: byte_size is 0", ErrInput)
	}
	file, err := r.open(key, g)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.all[g.Name] != nil:
		err = fmt.Errorf("%w: shared memory region '%s' already in manager: unregister it first", ErrExists, g.Name)
	case len(r.all) >= Max:
		err = fmt.Errorf("%w: at most %d", ErrFull, Max)
	}
	if err != nil {
		file.Close()
		return err
	}
	r.all[g.Name] = &open{g, file}
	return nil
}

// open opens the object. It neither waits at a pipe nor follows a link out of where objects are.
func (r *Regions) open(key string, g Region) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(r.dir, key), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: Unable to open shared memory region: '%s': %w", ErrInput, g.Key, err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("%w: key %q: %w", ErrInput, g.Key, err)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%w: key %q is no shared memory object", ErrInput, g.Key)
	case g.Offset > uint64(info.Size()) || g.Size > uint64(info.Size())-g.Offset:
		err = fmt.Errorf("%w: failed to register shared memory region '%s': its %d bytes from %d on are beyond the object's end, %d", ErrInput, g.Name, g.Size, g.Offset, info.Size())
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Unregister forgets a region; "": all. One that is not there is no error, as in Triton.
func (r *Regions) Unregister(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, g := range r.all {
		if name == "" || key == name {
			g.file.Close() // accesses under way end first
			delete(r.all, key)
		}
	}
}

// List is the regions by name; of a name that one.
func (r *Regions) List(name string) ([]Region, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := []Region{}
	for _, key := range slices.Sorted(maps.Keys(r.all)) {
		if name == "" || key == name {
			out = append(out, r.all[key].Region)
		}
	}
	if name != "" && len(out) == 0 {
		return nil, unknown(name)
	}
	return out, nil
}

func unknown(name string) error {
	return fmt.Errorf("%w: Unable to find shared memory region: '%s'", ErrUnknown, name)
}

// find is a region that has n bytes from offset on.
func (r *Regions) find(name string, offset uint64, n int) (*open, error) {
	r.mu.RLock()
	g := r.all[name]
	r.mu.RUnlock()
	switch {
	case g == nil:
		return nil, unknown(name)
	case offset > g.Size || uint64(n) > g.Size-offset:
		return nil, fmt.Errorf("%w: Invalid offset + byte size for shared memory region: '%s': %d bytes from %d on are beyond its end, %d", ErrInput, name, n, offset, g.Size)
	}
	return g, nil
}

// Check says whether n bytes from offset on may be read and written.
func (r *Regions) Check(name string, offset uint64, n int) error {
	_, err := r.find(name, offset, n)
	return err
}

// Read fills dst from the region's offset on.
func (r *Regions) Read(name string, offset uint64, dst []byte) error {
	g, err := r.find(name, offset, len(dst))
	if err != nil {
		return err
	}
	n, err := g.file.ReadAt(dst, int64(g.Offset+offset))
	return g.done(n, len(dst), err)
}

// Write writes src to the region's offset on. An object that has been made smaller is not made larger.
func (r *Regions) Write(name string, offset uint64, src []byte) error {
	g, err := r.find(name, offset, len(src))
	if err != nil {
		return err
	}
	if info, err := g.file.Stat(); err == nil && uint64(info.Size()) < g.Offset+offset+uint64(len(src)) {
		return g.done(0, len(src), io.EOF)
	}
	n, err := g.file.WriteAt(src, int64(g.Offset+offset))
	return g.done(n, len(src), err)
}

func (g *open) done(n, of int, err error) error {
	switch {
	case n == of:
		return nil
	case errors.Is(err, os.ErrClosed):
		return unknown(g.Name)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: shared memory region '%s': its object %s is smaller than it was when it was registered", ErrGone, g.Name, g.Key)
	}
	return fmt.Errorf("%w: shared memory region '%s': %w", ErrGone, g.Name, err)
}
