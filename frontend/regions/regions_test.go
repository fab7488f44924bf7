package regions

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// object makes a shared memory object of n bytes, 0, 1, 2, ...
func object(t testing.TB, dir, key string, n int) string {
	t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	path := filepath.Join(dir, key)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadAndWrite(t *testing.T) {
	dir := t.TempDir()
	path := object(t, dir, "a", 100)
	r := at(dir)
	if err := r.Register(Region{Name: "g", Key: "/a", Offset: 10, Size: 50}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if err := r.Read("g", 46, got); err != nil || !bytes.Equal(got, []byte{56, 57, 58, 59}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := r.Write("g", 0, []byte("xyz")); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(path); string(b[9:14]) != "\x09xyz\x0d" {
		t.Errorf("%q", b[9:14])
	}
	list, err := r.List("")
	if err != nil || len(list) != 1 || list[0] != (Region{"g", "/a", 10, 50}) {
		t.Errorf("%v, %v", list, err)
	}
	r.Unregister("nobody")
	r.Unregister("g")
	if err := r.Read("g", 0, got); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "Unable to find shared memory region: 'g'") {
		t.Errorf("%v", err)
	}
	if _, err := r.List("g"); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
}

// What lies beyond a region, or a region beyond its object, is refused, without an overflow on the way.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	path := object(t, dir, "a", 100)
	if err := os.Symlink(path, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := at(dir)
	for _, g := range []Region{
		{"", "/a", 0, 1}, {strings.Repeat("n", 300), "/a", 0, 1}, {"g", "", 0, 1}, {"g", "/", 0, 1}, {"g", "/..", 0, 1}, {"g", "/../a", 0, 1}, {"g", "a/b", 0, 1},
		{"g", "/a\x00", 0, 1}, {"g", "/nobody", 0, 1}, {"g", "/link", 0, 1}, {"g", "/pipe", 0, 1}, {"g", "/.", 0, 1}, {"g", "/" + strings.Repeat("k", 300), 0, 1},
		{"g", "/a", 0, 0}, {"g", "/a", 0, 101}, {"g", "/a", 100, 1}, {"g", "/a", 101, 1}, {"g", "/a", math.MaxUint64, 2}, {"g", "/a", 2, math.MaxUint64}, {"g", "/a", math.MaxUint64, math.MaxUint64},
	} {
		if err := r.Register(g); !errors.Is(err, ErrInput) {
			t.Errorf("%.60v: %v", g, err)
		}
	}
	if err := r.Register(Region{"g", "a", 90, 10}); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(Region{"g", "a", 90, 10}); !errors.Is(err, ErrExists) {
		t.Errorf("%v", err)
	}
	for _, c := range []struct {
		offset uint64
		n      int
	}{{0, 11}, {10, 1}, {11, 0}, {math.MaxUint64, 2}, {math.MaxUint64, 0}, {9, 2}} {
		if err := r.Read("g", c.offset, make([]byte, c.n)); !errors.Is(err, ErrInput) {
			t.Errorf("read %v: %v", c, err)
		}
		if err := r.Write("g", c.offset, make([]byte, c.n)); !errors.Is(err, ErrInput) {
			t.Errorf("write %v: %v", c, err)
		}
		if err := r.Check("g", c.offset, c.n); !errors.Is(err, ErrInput) {
			t.Errorf("check %v: %v", c, err)
		}
	}
	if err := os.Truncate(path, 95); err != nil { // its owner makes it smaller
		t.Fatal(err)
	}
	if err := r.Read("g", 0, make([]byte, 6)); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	if err := r.Write("g", 0, make([]byte, 6)); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	if info, _ := os.Stat(path); info.Size() != 95 {
		t.Errorf("the object has %d bytes", info.Size())
	}
	if err := r.Read("g", 0, make([]byte, 5)); err != nil {
		t.Error(err)
	}
}

// The number of regions is bounded; none is left after all are unregistered.
func TestMany(t *testing.T) {
	dir := t.TempDir()
	object(t, dir, "a", 10)
	r := at(dir)
	for i := range Max {
		if err := r.Register(Region{fmt.Sprint(i), "a", 0, 10}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Register(Region{"more", "a", 0, 10}); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	r.Unregister("")
	if list, _ := r.List(""); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

// Regions come and go while they are used: each access works, or finds no region.
func TestConcurrently(t *testing.T) {
	dir := t.TempDir()
	object(t, dir, "a", 1000)
	r := at(dir)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			b := make([]byte, 1000)
			for range 500 {
				if err := r.Register(Region{"g", "a", 0, 1000}); err != nil && !errors.Is(err, ErrExists) {
					t.Error(err)
				}
				if err := r.Read("g", 0, b); err != nil && !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
				if err := r.Write("g", 0, b); err != nil && !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
				if i%2 == 0 {
					r.Unregister("g")
				}
			}
		})
	}
	all.Wait()
	r.Unregister("")
}

func TestSameHost(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, c := range []struct {
		local, remote net.Addr
		same          bool
	}{
		{tcp("127.0.0.1"), tcp("127.0.0.1"), true}, {tcp("10.0.0.1"), tcp("10.0.0.1"), true}, {tcp("10.0.0.1"), tcp("10.0.0.2"), false},
		{tcp("::1"), tcp("::1"), true}, {&net.UnixAddr{Net: "unix"}, &net.UnixAddr{Net: "unix"}, true}, {nil, nil, false}, {nil, tcp("10.0.0.2"), false},
	} {
		if got := SameHost(c.local, c.remote); got != c.same {
			t.Errorf("%v to %v: %v", c.remote, c.local, got)
		}
	}
}

// Whatever is registered and accessed, nothing beyond the region is read or written, and nothing panics.
func FuzzRegions(f *testing.F) {
	f.Add("/a", uint64(10), uint64(50), uint64(40), uint16(10), uint16(100))
	f.Add("../a", uint64(math.MaxUint64), uint64(2), uint64(math.MaxUint64), uint16(1), uint16(3))
	f.Add("a", uint64(0), uint64(math.MaxUint64), uint64(1), uint16(0), uint16(0))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, key string, offset, size, from uint64, n, truncated uint16) {
		path := object(t, dir, "a", 100)
		r := at(dir)
		defer r.Unregister("")
		g := Region{"g", key, offset, size}
		if r.Register(g) != nil {
			return
		}
		if strings.TrimPrefix(key, "/") != "a" || offset+size > 100 || offset+size < size {
			t.Fatalf("%+v was registered", g)
		}
		if err := os.Truncate(path, int64(min(truncated, 100))); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		b := bytes.Repeat([]byte{0xee}, int(n))
		if r.Write("g", from, b) == nil && (from+uint64(n) > size || from > size) {
			t.Fatalf("%+v: %d bytes written from %d on", g, n, from)
		}
		after, _ := os.ReadFile(path)
		if len(after) != len(before) {
			t.Fatalf("the object has %d bytes, had %d", len(after), len(before))
		}
		for i := range after {
			if after[i] != before[i] && (uint64(i) < offset || uint64(i) >= offset+size) {
				t.Fatalf("%+v: byte %d was written", g, i)
			}
		}
		if r.Read("g", from, b) == nil && n > 0 && !bytes.Equal(b, after[offset+from:][:n]) {
			t.Fatal("read something else")
		}
	})
}
