package frontend

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/frontend/inflight"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/sampled"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Client is a frontend: safe for concurrent use.
type Client struct {
	o        Options
	log      zerolog.Logger
	margin   mono.Dur // Options.ReplyMargin
	arena    *arena.Arena
	data     transport.Listener
	refusals sampled.Refusals
	cancels  *sampled.Log[string] // that a scheduler's link was full for: its address
	slabKey  uint32               // with which backends READ the arena; 0: over TCP
	groups   []*group             // one or more; Immutable.
	uplinks  []*uplink            // of all groups; Immutable.
	metrics  *metrics
	images   chan imageJob
	photos   chan imageJob // large ones
	memory   *imageMemory
	times    imageTimes
	outputs  outputRoom
	waiting  atomic.Int64  // bytes of images in there
	held     atomic.Int64  // refusals of suspects that are held back (doubts.go)
	wake     chan struct{} // the expiry loop shall look again
	stop     chan struct{} // closed by Close
	loops    sync.WaitGroup
	draining atomic.Bool
	closing  sync.Once

	responses sync.Pool // of *Response: released ones
	frames    sync.Pool // of *submitFrame
	waits     sync.Pool // of *waiter

	changed atomic.Pointer[chan struct{}]
	came    atomic.Uint64 // models that came, of all schedulers: model.came

	instance uint64 // of this process
	labels   labels

	mu      sync.Mutex // Guards what follows.
	table   *inflight.Table
	open    []call // by slot
	sleeps  mono.Time
	expired []uint32 // scratch
}

// Dial starts a frontend and waits as WaitAdmitted does. From then on the client reconnects by
// itself.
func Dial(ctx context.Context, o Options) (*Client, error) {
	c, err := Open(o)
	if err != nil {
		return nil, err
	}
	if err := c.WaitAdmitted(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Open starts a frontend and does not wait: until a model's scheduler has admitted it, requests
// are answered ErrUnavailable.
func Open(o Options) (*Client, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	for _, u := range c.uplinks {
		u.connect()
	}
	return c, nil
}

func newClient(o Options) (*Client, error) {
	o = o.complete()
	groups, err := o.groups()
	if err != nil {
		return nil, err
	}
	if o.MaxInFlight < 1 || o.MaxInFlight > inflight.SlotsMax {
		return nil, fmt.Errorf("frontend: MaxInFlight %d, must be 1 to %d", o.MaxInFlight, inflight.SlotsMax)
	}
	if o.OutputsMax < 0 {
		return nil, fmt.Errorf("frontend: OutputsMax %d must not be negative", o.OutputsMax)
	}
	if *o.ReplyMargin < 0 {
		return nil, fmt.Errorf("frontend: ReplyMargin %v must not be negative", *o.ReplyMargin)
	}
	var near transport.Mapper
	if d := transport.DirectOf(o.Network); d != nil {
		near = d
	}
	a, err := arena.New(o.ArenaBytes, near)
	if err != nil {
		return nil, fmt.Errorf("frontend: %w", err)
	}
	c := &Client{o: o, log: o.Logger, refusals: sampled.NewRefusals(o.Logger), margin: *o.ReplyMargin, arena: a,
		images: make(chan imageJob, imagesMax), photos: make(chan imageJob, imagesMax), memory: newImageMemory(o.ImageMemory),
		instance: randomStart(), labels: newLabels(o.Logger), cancels: newCancels(o.Logger), wake: make(chan struct{}, 1), stop: make(chan struct{}), sleeps: mono.Never,
		table: inflight.New(o.MaxInFlight, randomStart()), open: make([]call, o.MaxInFlight)}
	c.outputs.most = o.OutputsMax
	for _, addresses := range groups {
		g := newGroup(c, addresses, len(c.groups), len(groups))
		c.groups, c.uplinks = append(c.groups, g), append(c.uplinks, g.members...)
	}
	signal := make(chan struct{})
	c.changed.Store(&signal)
	if c.metrics, err = newMetrics(c, o.Metrics); err != nil {
		a.Close()
		return nil, fmt.Errorf("frontend: %w", err)
	}
	c.data, err = o.Network.Listen(o.Listen, transport.Options{Hello: c.hello(), Slabs: a, Refused: c.refusals.Refused}, c.accept)
	if err != nil {
		a.Close()
		c.metrics.unregister()
		return nil, fmt.Errorf("frontend: %w", err)
	}
	c.slabKey = transport.SlabKey(c.data)
	c.loops.Add(1 + o.PreprocessConcurrency)
	go c.expireLoop()
	for i := range o.PreprocessConcurrency {
		photos := c.photos
		if i >= (o.PreprocessConcurrency+1)/2 { // small images do not wait behind large ones
			photos = nil
		}
		go c.imageLoop(photos)
	}
	for _, g := range c.groups {
		if g.only == nil {
			c.loops.Add(1)
			go g.loop()
		}
	}
	return c, nil
}

func (o Options) complete() Options {
	if o.Listen == "" {
		o.Listen = "tcp:127.0.0.1:0"
	}
	if o.Name == "" {
		o.Name = "frontend"
	}
	if o.Network == nil {
		o.Network = transport.Mux{"tcp": tcp.New()}
	}
	if o.ArenaBytes == 0 {
		o.ArenaBytes = 256 << 20
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 1 << 16
	}
	if o.PreprocessConcurrency <= 0 {
		o.PreprocessConcurrency = max(1, runtime.GOMAXPROCS(0)-1)
	}
	if o.ImagePixels == 0 {
		o.ImagePixels = 16 << 20
	}
	if o.ImageMemory == 0 {
		o.ImageMemory = 48 << 20
	}
	if o.OutputsMax == 0 {
		o.OutputsMax = OutputsMaxDefault
	}
	if o.ReplyMargin == nil {
		o.ReplyMargin = new(ReplyMarginDefault)
	}
	return o
}

func randomStart() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func (c *Client) hello() wire.Hello {
	return wire.Hello{Role: wire.RoleFrontend, Incarnation: c.instance, Token: transport.Token(c.o.Token), Name: c.o.Name}
}

// accept takes backends on the data address.
func (c *Client) accept(peer wire.Hello) (transport.Handler, error) {
	if peer.Role != wire.RoleBackend {
		return nil, errors.New("only backends read inputs here")
	}
	return &dataHandler{client: c}, nil
}

// InFlight is the number of open requests.
func (c *Client) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Len()
}

// Drain refuses new requests, waits until the open ones are answered or ctx
// ends, and closes. Those of best effort could wait for long: they are refused after a second.
func (c *Client) Drain(ctx context.Context) error {
	c.draining.Store(true)
	var err error
	efforts := time.After(effortGrace)
	for c.InFlight() > 0 && err == nil {
		select {
		case <-efforts:
			c.failEffort(wire.ReasonDraining)
		case <-ctx.Done():
			err = fmt.Errorf("frontend: %d requests still open: %w", c.InFlight(), ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
	for _, u := range c.uplinks {
		u.leave()
	}
	return errors.Join(err, c.Close())
}

// effortGrace is how long Drain waits for best effort: what runs ends meanwhile, as a rule.
const effortGrace = time.Second

// stopped reports whether Close was called.
func (c *Client) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// Close ends the client at once; open requests are answered with ErrUnavailable.
// Not from within a done function: it waits for the goroutines that call those.
func (c *Client) Close() error {
	var err error
	c.closing.Do(func() {
		c.draining.Store(true)
		close(c.stop)
		var links sync.WaitGroup // one that takes its time to close holds up no other
		for _, u := range c.uplinks {
			links.Go(u.close)
		}
		links.Wait()
		c.failAll(wire.ReasonDraining)
		c.loops.Wait()
		c.failAll(wire.ReasonDraining) // what was let in meanwhile; later ones see that there is no admission
		err = c.data.Close()
		c.refusals.Close()
		c.labels.bad.Close()
		c.cancels.Close()
		c.metrics.unregister()
		err = errors.Join(err, c.arena.Close())
	})
	return err
}
