package rdma_test

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
)

// LocalKey finds the region that all of the bytes lie in, or none.
func TestLocalKey(t *testing.T) {
	_, s := open(t, fakeverbs.New(fakeverbs.Config{}), rdma.Config{})
	all, err := rdma.Map(10*4096, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdma.Unmap(all)
	page := func(from, to int) []byte { return all[from*4096 : to*4096] }
	regions := map[string]rdma.Region{}
	// Registered out of order; 1 and 2 touch, between 3 and 5 there is a gap.
	for _, r := range []struct {
		name     string
		from, to int
	}{{"high", 7, 9}, {"low", 1, 2}, {"middle", 5, 6}, {"next", 2, 3}} {
		if regions[r.name], err = s.nic.Register(page(r.from, r.to), rdma.LocalWrite); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"the whole of one", page(7, 9), "high"}, {"inside", page(7, 9)[100:200], "high"}, {"the first byte", page(1, 2)[:1], "low"},
		{"the last byte", page(1, 2)[4095:], "low"}, {"the neighbour's first", page(2, 3)[:1], "next"}, {"all of the middle", page(5, 6), "middle"},
		{"over the end", all[6*4096-1:][:2], ""}, {"over the beginning", all[5*4096-1:][:2], ""}, {"over two that touch", all[2*4096-1:][:2], ""},
		{"before all", page(0, 1), ""}, {"in a gap", page(3, 4), ""}, {"behind all", page(9, 10), ""}, {"nothing", nil, ""},
		{"nothing, in one", page(7, 9)[:0], ""}, {"of the Go heap", make([]byte, 100), ""},
	} {
		key, ok := s.nic.LocalKey(c.b)
		if ok != (c.want != "") || ok && key != regions[c.want].LKey() {
			t.Errorf("%s: %v, want %q", c.name, ok, c.want)
		}
	}
	if err := regions["low"].Close(); err != nil {
		t.Error(err)
	}
	if _, ok := s.nic.LocalKey(page(1, 2)); ok {
		t.Error("a closed region is still found")
	}
	if key, ok := s.nic.LocalKey(page(2, 3)); !ok || key != regions["next"].LKey() {
		t.Error("its neighbour is lost, too")
	}
	for _, name := range []string{"high", "middle", "next"} {
		if err := regions[name].Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRegisterSaysHowMuch(t *testing.T) {
	_, s := open(t, fakeverbs.New(fakeverbs.Config{Attr: rdma.DeviceAttr{RegionMax: sideMemory}}), rdma.Config{})
	mem, err := rdma.Map(2*sideMemory, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdma.Unmap(mem)
	_, err = s.nic.Register(mem, rdma.LocalWrite)
	says(t, err, "fake0", "131072 bytes")
}

// A pool's pieces: the length that was asked for, the capacity of their class,
// apart from each other, and known to the device.
func TestPoolClasses(t *testing.T) {
	_, s := open(t, fakeverbs.New(fakeverbs.Config{}), rdma.Config{})
	p := s.nic.NewPool(64 << 20)
	var all [][]byte
	for i, c := range []struct{ n, capacity int }{{0, 4 << 10}, {1, 4 << 10}, {4 << 10, 4 << 10}, {4<<10 + 1, 8 << 10},
		{150_000, 256 << 10}, {256 << 10, 256 << 10}, {5 << 20, 8 << 20}} {
		b, ok := p.Alloc(c.n)
		if !ok || len(b) != c.n || cap(b) != c.capacity {
			t.Fatalf("%d bytes: %v, length %d, capacity %d", c.n, ok, len(b), cap(b))
		}
		if _, ok := s.nic.LocalKey(b[:cap(b)]); !ok {
			t.Errorf("%d bytes the device does not know", c.n)
		}
		b = b[:cap(b)]
		copy(b, bytes.Repeat([]byte{byte(i + 1)}, len(b)))
		all = append(all, b)
	}
	for i, b := range all {
		if !bytes.Equal(b, bytes.Repeat([]byte{byte(i + 1)}, len(b))) {
			t.Errorf("piece %d shares memory with another", i)
		}
		p.Free(b[:0]) // only the capacity counts
	}
	for i := len(all) - 1; i >= 0; i-- { // last in, first out
		b, ok := p.Alloc(cap(all[i]))
		if !ok || cap(b) != cap(all[i]) {
			t.Fatalf("piece %d does not come back", i)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A freed piece is given out again: the pool does not grow.
func TestPoolReuses(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	_, s := open(t, f, rdma.Config{})
	p := s.nic.NewPool(64 << 20)
	before := f.Open().Regions
	for range 10_000 {
		a, ok := p.Alloc(150_000)
		b, ok2 := p.Alloc(150_000)
		if !ok || !ok2 || unsafe.SliceData(a) == unsafe.SliceData(b) {
			t.Fatal("no two pieces")
		}
		p.Free(a)
		p.Free(b)
	}
	if grown := f.Open().Regions - before; grown != 1 {
		t.Errorf("%d chunks for two pieces", grown)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if f.Open().Regions != before {
		t.Error("Close leaves a chunk registered")
	}
	if _, ok := p.Alloc(1); ok {
		t.Error("a closed pool gives memory")
	}
}

// The limit holds over all classes, and what fits in free pieces still comes.
func TestPoolLimit(t *testing.T) {
	_, s := open(t, fakeverbs.New(fakeverbs.Config{}), rdma.Config{})
	p := s.nic.NewPool(9 << 20)
	a, ok := p.Alloc(3 << 20) // one chunk of 4 MiB
	_, ok2 := p.Alloc(1000)   // another, of small pieces
	if !ok || !ok2 {
		t.Fatal("8 MiB of 9")
	}
	if _, ok := p.Alloc(3 << 20); ok {
		t.Error("12 MiB of 9")
	}
	if _, ok := p.Alloc(1000); !ok {
		t.Error("there are small ones left")
	}
	p.Free(a)
	if _, ok := p.Alloc(4 << 20); !ok {
		t.Error("one came back")
	}
	if _, ok := p.Alloc(1 << 62); ok {
		t.Error("more than there is")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A device that registers no more is an answer, said by Err, and leaves no memory
// mapped.
func TestPoolWithoutRegions(t *testing.T) {
	_, s := open(t, fakeverbs.New(fakeverbs.Config{Attr: rdma.DeviceAttr{Regions: 1}}), rdma.Config{}) // the side's own
	p := s.nic.NewPool(1 << 30)
	before := mappings(t)
	for range 20 {
		if _, ok := p.Alloc(1); ok {
			t.Fatal("where from?")
		}
	}
	says(t, p.Err(), "fake0", "registering", "1 regions already")
	if grown := mappings(t) - before; grown > 5 {
		t.Errorf("%d mappings more", grown)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// mappings counts this process's.
func mappings(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	return bytes.Count(b, []byte("\n"))
}

// Map gives zeroed memory that can be written, of any size, whether the host has
// huge pages or not, and wherever it is asked for: a node that does not exist is a
// wish that is not met.
func TestMap(t *testing.T) {
	for _, n := range []int{1, 4096, 5000, 2 << 20, 3<<20 + 1, 4 << 20} {
		for _, node := range []int{-1, 0, 1, 63, 64, 1000} {
			m, err := rdma.Map(n, node)
			if err != nil || len(m) != n {
				t.Fatalf("%d bytes on node %d: %d, %v", n, node, len(m), err)
			}
			if !bytes.Equal(m, make([]byte, n)) {
				t.Errorf("%d bytes on node %d are not zero", n, node)
			}
			for i := range m {
				m[i] = 0xff
			}
			if err := rdma.Unmap(m); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := rdma.Map(1<<60, -1); runtime.GOOS == "linux" {
		says(t, err, "mapping", "1152921504606846976")
		if errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
}
