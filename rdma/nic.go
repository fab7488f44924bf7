package rdma

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrClosed: the NIC or the Conn was closed.
var ErrClosed = errors.New("RDMA connection closed")

// Config of a NIC. Zero values mean the defaults named.
type Config struct {
	Device       string   // "": the first with an active port
	Port         int      // [1]
	GIDIndex     int      // of the port's table; negative: the last IPv4 one, or else the last of all (RoCE v2 comes behind v1)
	Poll         PollMode // [PollAdaptive]
	Spin         mono.Dur // PollAdaptive: longest spin before it sleeps [50 us]
	ReadsMax     int64    // bytes of all READs in flight, of all Conns [2 MiB]
	NUMANode     int      // of the device, for memory; negative: unknown
	StuckAfter   mono.Dur // a send without completion for so long fails its Conn [1 s]
	TrafficClass uint8    // of the packets: DSCP << 2

	// Event is told of the device's asynchronous events, from the polling thread; may be nil.
	Event func(e Event)
}

// NIC is an opened device and the thread that polls it. Methods may be called from
// any goroutine.
type NIC struct {
	// Immutable.
	cfg     Config
	device  Device
	attr    DeviceAttr
	channel Channel
	window  *Window
	done    chan struct{}

	regions  atomic.Pointer[[]*registered] // by address
	conns    atomic.Pointer[map[uint32]*Conn]
	queues   atomic.Pointer[[]*queue]
	stopping atomic.Bool
	broken   atomic.Bool   // the device answers with errors
	passes   atomic.Uint64 // turns of the polling thread
	counters counters

	registering sync.Mutex // Guards changes of regions: it takes long, and so does making a queue pair.

	mu     sync.Mutex // Guards changes of the other tables above, and what follows.
	at     place
	serial uint32
	closed bool
}

// place is where a port is to be reached. Addresses come and go while a process
// lives, so every Conn begins with the present one.
type place struct {
	port  PortAttr
	gid   GID
	index int
}

// queue is a CQ and how much of it is promised to Conns.
type queue struct {
	cq             CQ
	depth, granted int
	retired        bool // it has overrun: no more Conns
}

// queueDepth is a CQ's size, where the device allows: some 80 links of
// transport/rdmalink's default share one.
const queueDepth = 16 << 10

// Open opens a device. Errors say what is missing; *UnsupportedError where no
// device could be used at all.
func Open(v Verbs, c Config) (*NIC, error) {
	c = c.complete()
	names := []string{c.Device}
	if c.Device == "" {
		var err error
		if names, err = v.Devices(); err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, &UnsupportedError{What: "RDMA", Need: "a device; `symphony rdma list` shows what is there"}
		}
	}
	var errs []error
	for _, name := range names {
		n, err := openDevice(v, name, c)
		if err == nil {
			return n, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (c Config) complete() Config {
	if c.Port == 0 {
		c.Port = 1
	}
	if c.Spin == 0 {
		c.Spin = 50 * mono.Microsecond
	}
	if c.ReadsMax == 0 {
		c.ReadsMax = 2 << 20
	}
	if c.StuckAfter == 0 {
		c.StuckAfter = mono.Second
	}
	if c.Event == nil {
		c.Event = func(Event) {}
	}
	return c
}

func openDevice(v Verbs, name string, c Config) (*NIC, error) {
	d, err := v.Open(name)
	if err != nil {
		return nil, fmt.Errorf("RDMA device %s: %w", name, err)
	}
	n := &NIC{cfg: c, device: d, attr: d.Attr(), window: newWindow(c.ReadsMax), done: make(chan struct{})}
	n.regions.Store(&[]*registered{})
	n.conns.Store(&map[uint32]*Conn{})
	n.queues.Store(&[]*queue{})
	if n.at, err = n.locate(c.GIDIndex >= 0); err == nil {
		n.channel, err = d.NewChannel()
	}
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("RDMA device %s: %w", name, err)
	}
	go n.run()
	return n, nil
}

// locate checks the port and finds its address: at the configured index, or, where
// that is negative or (unless strict) empty by now, the best that there is.
func (n *NIC) locate(strict bool) (place, error) {
	var at place
	var err error
	if at.port, err = n.device.Port(n.cfg.Port); err != nil {
		return at, err
	}
	if at.port.State != PortActive {
		return at, fmt.Errorf("port %d is %v, not active: is its network interface up, and the cable in?", n.cfg.Port, at.port.State)
	}
	if n.cfg.GIDIndex >= 0 {
		at.gid, err = n.device.GID(n.cfg.Port, n.cfg.GIDIndex)
		if at.index = n.cfg.GIDIndex; err == nil && at.gid != (GID{}) {
			return at, nil
		}
		if strict && err == nil {
			err = fmt.Errorf("GID %d of port %d is empty: `symphony rdma list` shows which are not", n.cfg.GIDIndex, n.cfg.Port)
		}
		if strict {
			return at, err
		}
		at.gid = GID{}
	}
	found := false
	for i := range at.port.GIDs {
		g, err := n.device.GID(n.cfg.Port, i)
		if err != nil || g == (GID{}) || at.gid.IPv4() && !g.IPv4() {
			continue
		}
		found, at.index, at.gid = true, i, g
	}
	if !found {
		return at, fmt.Errorf("port %d has no GID: give its network interface an address", n.cfg.Port)
	}
	return at, nil
}

// IPv4 reports whether the GID is an IPv4 address.
func (g GID) IPv4() bool {
	return g[10] == 0xff && g[11] == 0xff && [10]byte(g[:10]) == [10]byte{}
}

// Name is the device's.
func (n *NIC) Name() string { return n.device.Name() }

// GID is our address, and its place in the port's table.
func (n *NIC) GID() (GID, int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at.gid, n.at.index
}

// MTU is the port's.
func (n *NIC) MTU() MTU {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at.port.MTU
}

// Window bounds the READs in flight of all Conns.
func (n *NIC) Window() *Window { return n.window }

// ReadsAtOnce is how many READs of a Conn the devices work on at a time.
func (n *NIC) ReadsAtOnce() int {
	return max(1, min(n.attr.ReadsServed, n.attr.ReadsStarted, 128))
}

// Close ends the polling and the device. Conns and Regions must be closed before.
func (n *NIC) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	if open, regions := len(*n.conns.Load()), len(*n.regions.Load()); open+regions > 0 {
		n.mu.Unlock()
		return fmt.Errorf("RDMA device %s: %d connections and %d regions are still open", n.Name(), open, regions)
	}
	n.closed = true
	n.mu.Unlock()
	n.stopping.Store(true)
	n.channel.Wake()
	<-n.done
	var errs []error
	for _, q := range *n.queues.Load() {
		errs = append(errs, q.cq.Close())
	}
	return errors.Join(append(errs, n.channel.Close(), n.device.Close())...)
}

// reserve finds a CQ with room for so many entries, or makes one.
func (n *NIC) reserve(entries int) (*queue, error) {
	queues := *n.queues.Load()
	for _, q := range queues {
		if !q.retired && q.depth-q.granted >= entries {
			q.granted += entries
			return q, nil
		}
	}
	depth := min(max(queueDepth, entries), n.attr.CQDepth)
	if depth < entries {
		return nil, fmt.Errorf("RDMA device %s: its completion queues hold %d entries, a connection needs %d: configure smaller depths", n.Name(), n.attr.CQDepth, entries)
	}
	if len(queues) >= n.attr.CQs {
		return nil, fmt.Errorf("RDMA device %s: all of its %d completion queues are full", n.Name(), n.attr.CQs)
	}
	cq, err := n.device.NewCQ(depth, n.channel)
	if err != nil {
		return nil, fmt.Errorf("RDMA device %s: completion queue: %w", n.Name(), err)
	}
	q := &queue{cq: cq, depth: depth, granted: entries}
	all := append(slices.Clone(queues), q)
	n.queues.Store(&all)
	n.channel.Wake() // it is armed before the next sleep
	return q, nil
}

// NUMANode is the device's node as configured; negative: unknown.
func (n *NIC) NUMANode() int { return n.cfg.NUMANode }

// retireQueues keeps new Conns off the CQs there are.
func (n *NIC) retireQueues() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range *n.queues.Load() {
		q.retired = true
	}
}
