package fakecuda

import (
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a driver; the zero value is one GPU that copies in no time.
type Config struct {
	// GPUs; nil: one; empty: none. What is zero in an Info gets a default: Memory 1 GiB.
	GPUs []cuda.Info
	// A copy of n bytes takes CopyTime + n/Bandwidth seconds.
	CopyTime  mono.Dur
	Bandwidth int64 // bytes/s; 0: unlimited
	// Libraries is what the first model of a context takes of the device beside its own: kernels of libraries. It stays
	// until all have closed the device.
	Libraries int64
	// Unsupported is what Devices and Open return, where there is no driver.
	Unsupported error
}

// Driver implements cuda.Driver.
type Driver struct {
	c    Config // Immutable.
	gpus []*GPU // Immutable.

	mu       sync.Mutex       // Guards what follows; taken after a GPU's, never before.
	threads  map[int]*primary // what is current, by OS thread
	pinned   []*pinned        // by address
	misused  []error
	failHost int // so many of the next HostAlloc and HostRegister fail
}

// GPU is one device: for tests to break and to look at. Its faults are in faults.go.
type GPU struct {
	d    *Driver   // Immutable.
	info cuda.Info // Immutable, but for Memory, which is the budget.

	mu      sync.Mutex // Guards what follows, and all that is made of its contexts.
	cond    *sync.Cond // Something has changed.
	primary *primary   // nil: nobody has opened it
	used    int64      // bytes
	next    cuda.Ptr   // where the next allocation goes
	streams uintptr    // handles that were given
	stats   Stats

	gone       bool // vanished
	failAllocs int
	failKernel bool
	hang       hanging
}

// Stats count what a GPU has done since it was made.
type Stats struct {
	In, Out           int64 // copies
	BytesIn, BytesOut int64
	Unpinned          int64 // copies of memory that was not pinned: the host waited
	Runs              int64 // kernels that have ended well
}

// Counts are objects that are open: for tests of leaks. They can be compared.
type Counts struct {
	Contexts, Streams, Events, Programs int
	Allocations                         int
	Bytes                               int64 // allocated of devices
	Pinned                              int   // pieces of the host's memory, allocated and registered
	PinnedBytes                         int64
}

var _ cuda.Driver = (*Driver)(nil)

// New makes a driver.
func New(c Config) *Driver {
	d := &Driver{c: c, threads: map[int]*primary{}}
	if c.GPUs == nil {
		c.GPUs = make([]cuda.Info, 1)
	}
	for i, info := range c.GPUs {
		g := &GPU{d: d, info: fill(i, info), next: cuda.Ptr(i+1) << 40}
		g.cond = sync.NewCond(&g.mu)
		d.gpus = append(d.gpus, g)
	}
	return d
}

// fill puts in what a present GPU has.
func fill(i int, info cuda.Info) cuda.Info {
	info.Index = i
	info.Name = orElse(info.Name, "Fake GPU")
	info.UUID = orElse(info.UUID, fmt.Sprintf("GPU-fa4ecada-0000-4000-8000-%012x", i))
	info.PCI = orElse(info.PCI, fmt.Sprintf("0000:%02x:00.0", 0x10+i))
	info.Major = orElse(info.Major, 9)
	info.Multiprocessors = orElse(info.Multiprocessors, 132)
	info.Memory = orElse(info.Memory, 1<<30)
	info.DriverVersion = orElse(info.DriverVersion, 13000)
	return info
}

func orElse[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// GPU gives a device to break or to look at.
func (d *Driver) GPU(index int) *GPU { return d.gpus[index] }

// Devices implements cuda.Driver. One that has vanished is listed, as CUDA does.
func (d *Driver) Devices() ([]cuda.Info, error) {
	if d.c.Unsupported != nil {
		return nil, d.c.Unsupported
	}
	all := make([]cuda.Info, len(d.gpus))
	for i, g := range d.gpus {
		g.mu.Lock()
		all[i] = g.info
		g.mu.Unlock()
	}
	return all, nil
}

// Open implements cuda.Driver.
func (d *Driver) Open(index int) (cuda.Context, error) {
	if d.c.Unsupported != nil {
		return nil, d.c.Unsupported
	}
	if index < 0 || index >= len(d.gpus) {
		return nil, fmt.Errorf("no CUDA device %d: this driver has %d", index, len(d.gpus))
	}
	g := d.gpus[index]
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.gone:
		return nil, g.errLost("it has vanished")
	case g.primary == nil:
		g.primary = &primary{g: g}
	case g.primary.lost != nil:
		return nil, g.primary.lost
	}
	c := &context{d: d, g: g, p: g.primary}
	g.primary.handles = append(g.primary.handles, c)
	return c, nil
}

// Counts counts what is open of all GPUs.
func (d *Driver) Counts() Counts {
	var sum Counts
	for _, g := range d.gpus {
		g.mu.Lock()
		if g.primary != nil {
			for _, c := range g.primary.handles {
				sum.Contexts++
				sum.Streams += c.open.Streams
				sum.Events += c.open.Events
				sum.Programs += c.open.Programs
				sum.Allocations += c.open.Allocations
				sum.Bytes += c.open.Bytes
			}
		}
		g.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pinned {
		sum.Pinned++
		sum.PinnedBytes += int64(len(p.mem))
	}
	return sum
}

// Stats are the GPU's so far.
func (g *GPU) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stats
}

// misusedMax bounds what is kept of misuse: the first tells the most.
const misusedMax = 64

// Misused is what was done wrong so far, though the errors may have got lost.
func (d *Driver) Misused() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]error(nil), d.misused...)
}

// misuse keeps an error for Misused.
func (d *Driver) misuse(format string, args ...any) error {
	err := fmt.Errorf("misuse of CUDA: "+format, args...)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.misused) < misusedMax {
		d.misused = append(d.misused, err)
	}
	return err
}

// current is what the calling thread has entered.
func (d *Driver) current() *primary {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.threads[thread()]
}
