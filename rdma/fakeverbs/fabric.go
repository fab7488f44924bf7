package fakeverbs

import (
	"maps"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a fabric; the zero value serves.
type Config struct {
	Devices    []string        // of each host; nil: one, "fake0"; empty: none
	Attr       rdma.DeviceAttr // of each device; what is zero gets a default
	MTU        rdma.MTU        // active; 0: MTU4096
	MessageMax uint32          // 0: 1 GiB
	InfiniBand bool            // ports have LIDs; else they are RoCE's, and LIDs 0
	Delay      mono.Dur        // from posting until execution
	RetryDelay mono.Dur        // until a peer out of reach is given up; 0: 5 ms
	RNRPause   mono.Dur        // between attempts where no receive is posted; 0: 200 us
}

// Fabric joins hosts.
type Fabric struct {
	c Config // Immutable, defaults filled in.

	mu     sync.Mutex // Guards what follows, and everything made of this fabric.
	hosts  map[string]*Host
	nics   []*NIC // in the order of creation
	frozen bool
	delay  mono.Dur
	cut    map[[2]string]bool // pairs of host names, smaller first
}

// Counts are objects that are open.
type Counts struct{ Devices, Regions, Channels, CQs, QPs int }

// New makes a fabric without hosts.
func New(c Config) *Fabric {
	if c.Devices == nil {
		c.Devices = []string{"fake0"}
	}
	c.Attr = fill(c.Attr)
	c.MTU = orElse(c.MTU, rdma.MTU4096)
	c.MessageMax = orElse(c.MessageMax, 1<<30)
	c.RetryDelay = orElse(c.RetryDelay, 5*mono.Millisecond)
	c.RNRPause = orElse(c.RNRPause, 200*mono.Microsecond)
	return &Fabric{c: c, hosts: map[string]*Host{}, delay: c.Delay, cut: map[[2]string]bool{}}
}

// fill puts in what a present NIC has.
func fill(a rdma.DeviceAttr) rdma.DeviceAttr {
	a.QPs = orElse(a.QPs, 1<<16)
	a.QPDepth = orElse(a.QPDepth, 1<<15)
	a.CQs = orElse(a.CQs, 1<<16)
	a.CQDepth = orElse(a.CQDepth, 1<<22)
	a.Regions = orElse(a.Regions, 1<<20)
	a.RegionMax = orElse(a.RegionMax, 1<<40)
	a.SGEs = orElse(a.SGEs, 30)
	a.ReadsServed = orElse(a.ReadsServed, 16)
	a.ReadsStarted = orElse(a.ReadsStarted, 16)
	a.Firmware = orElse(a.Firmware, "fake")
	a.Ports = 1
	return a
}

func orElse[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// Host gives the host of that name; the first time, it makes it.
func (f *Fabric) Host(name string) *Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if h == nil {
		h = &Host{f: f, name: name}
		for _, device := range f.c.Devices {
			h.nics = append(h.nics, f.addNIC(h, device))
		}
		f.hosts[name] = h
	}
	return h
}

// Open counts what is open on all hosts: for tests of leaks.
func (f *Fabric) Open() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	var sum Counts
	for _, n := range f.nics {
		for _, d := range n.devices {
			sum.Devices++
			sum.Regions += d.open.Regions
			sum.Channels += d.open.Channels
			sum.CQs += d.open.CQs
			sum.QPs += d.open.QPs
		}
	}
	return sum
}

// each calls do for every QP, in a fixed order. The lock is held.
func (f *Fabric) each(do func(*queuePair)) {
	for _, n := range f.nics {
		n.each(do)
	}
}

// each calls do for every QP, by rising number. The lock is held.
func (n *NIC) each(do func(*queuePair)) {
	for _, number := range slices.Sorted(maps.Keys(n.qps)) {
		if q := n.qps[number]; q != nil {
			do(q)
		}
	}
}
