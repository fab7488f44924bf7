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
	"github.com/symphony-serving/symphony/transport/catalog"
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
	slabKey  uint32 // with which backends READ the arena; 0: over TCP
	keeper   *transport.Keeper
	metrics  *metrics
	images   chan imageJob
	photos   chan imageJob // large ones
	memory   *imageMemory
	times    imageTimes
	waiting  atomic.Int64  // bytes of images in there
	wake     chan struct{} // the expiry loop shall look again
	stop     chan struct{} // closed by Close
	loops    sync.WaitGroup
	draining atomic.Bool
	closing  sync.Once

	responses sync.Pool // of *Response: released ones
	frames    sync.Pool // of *submitFrame
	waits     sync.Pool // of *waiter

	models   atomic.Pointer[snapshot]
	before   atomic.Pointer[earlier]   // what the scheduler before had
	admitted atomic.Pointer[admission] // nil: no scheduler has us now
	changed  atomic.Pointer[chan struct{}]
	trouble  atomic.Pointer[error] // why the scheduler has not admitted us

	instance uint64  // of this process
	served   *served // Owned by the goroutine that receives from the scheduler.
	hidden   bool    // Likewise: it was said that others cannot reach this address

	labels labels

	mu      sync.Mutex // Guards what follows.
	table   *inflight.Table
	open    []call // by slot
	sleeps  mono.Time
	expired []uint32 // scratch
}

// admission is what the scheduler made of us.
type admission struct {
	epoch wire.Epoch
	id    wire.FrontendID
	link  transport.Link
}

// Dial starts a frontend and waits until the scheduler has admitted it, or
// ctx ends. From then on the client reconnects by itself.
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

// Open starts a frontend and does not wait: until the scheduler has admitted it, requests
// are answered ErrUnavailable.
func Open(o Options) (*Client, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	c.connect()
	return c, nil
}

// WaitAdmitted waits until the scheduler has admitted this frontend, or ctx ends; the
// error says what was in the way.
func (c *Client) WaitAdmitted(ctx context.Context) error {
	err := c.wait(ctx, func() bool { return c.admitted.Load() != nil && c.models.Load() != nil })
	if err == nil {
		return nil
	}
	if p := c.trouble.Load(); p != nil {
		err = *p
	}
	return &Error{Kind: ErrUnavailable, Msg: fmt.Sprintf("scheduler %s: %v", c.o.Scheduler, err)}
}

func newClient(o Options) (*Client, error) {
	o = o.complete()
	if o.Scheduler == "" {
		return nil, errors.New("frontend: Options.Scheduler is empty: give the scheduler's address, for example tcp:127.0.0.1:9000")
	}
	if o.MaxInFlight < 1 || o.MaxInFlight > inflight.SlotsMax {
		return nil, fmt.Errorf("frontend: MaxInFlight %d, must be 1 to %d", o.MaxInFlight, inflight.SlotsMax)
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
		instance: randomStart(), labels: newLabels(o.Logger), wake: make(chan struct{}, 1), stop: make(chan struct{}), sleeps: mono.Never,
		table: inflight.New(o.MaxInFlight, randomStart()), open: make([]call, o.MaxInFlight)}
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

// connect keeps the link to the scheduler up.
func (c *Client) connect() {
	address := c.o.Advertise
	if address == "" {
		address = c.data.Address()
	}
	up := func(l transport.Link) {
		transport.SendDoc(l, wire.DocFrontend, catalog.FrontendInfo{Name: c.o.Name, Instance: c.instance, Address: address})
	}
	c.keeper = transport.Keep(c.o.Network, c.o.Scheduler, transport.Options{Hello: c.hello()}, (*schedulerHandler)(c), up, func(err error) {
		c.log.Warn().Str("scheduler", c.o.Scheduler).Err(err).Msg("no link to the scheduler; trying on")
		c.trouble.Store(&err)
	})
}

// sayIfHidden warns of an address that only this host knows, while the scheduler is on
// another: backends are likely to be elsewhere, too.
func (c *Client) sayIfHidden(l transport.Link, address string) {
	_, remote := transport.HostsOf(l)
	host, _, err := wire.SplitTCP(address)
	if c.hidden || remote == "" || wire.Loopback(remote) || err != nil || !wire.Loopback(host) {
		return
	}
	c.hidden = true
	c.log.Warn().Str("address", address).Str("scheduler", remote).Msg("backends on other hosts cannot reach this address: set frontend.listen to tcp:0.0.0.0:0 or to an address of this host, or frontend.advertise to one that they can dial")
}

// accept takes backends on the data address.
func (c *Client) accept(peer wire.Hello) (transport.Handler, error) {
	if peer.Role != wire.RoleBackend {
		return nil, errors.New("only backends read inputs here")
	}
	return &dataHandler{client: c}, nil
}

// Models is the catalogue as last heard of.
func (c *Client) Models() catalog.Catalogue {
	if s := c.models.Load(); s != nil {
		return s.doc()
	}
	return catalog.Catalogue{}
}

// Model finds one model. Version "" is the one that stands for the name: of the versions that
// are ready the one with the largest share, without shares the highest. The error is
// ErrUnknownModel, or ErrUnavailable until a scheduler that was started again knows the model
// again.
func (c *Client) Model(name, version string) (catalog.Entry, error) {
	return c.entry(name, version, (*snapshot).find)
}

// Versions are a model's versions in the catalogue, the lowest first.
func (c *Client) Versions(name string) []string {
	s := c.models.Load()
	if s == nil || s.of(name) == nil {
		return []string{}
	}
	all := s.of(name).all
	out := make([]string, 0, len(all))
	for i := range all {
		out = append(out, all[len(all)-1-i].entry.Spec.Version)
	}
	return out
}

// Choose is Model for who makes a request of what he finds: with version "" it takes a turn of
// the versions' shares, which Infer does by itself. Whoever chooses asks for that version, with
// Request.Any.
func (c *Client) Choose(name, version string) (catalog.Entry, error) {
	return c.entry(name, version, (*snapshot).choose)
}

func (c *Client) entry(name, version string, find func(s *snapshot, name, version string) (*model, *Error)) (catalog.Entry, error) {
	s := c.models.Load()
	if s == nil {
		return catalog.Entry{}, &Error{Kind: ErrUnavailable, Reason: wire.ReasonUnavailable, Model: name, Msg: "the scheduler has not been reached yet"}
	}
	m, err := find(s, name, version)
	if err != nil {
		return catalog.Entry{}, err
	}
	return m.state(), nil
}

// Ready reports whether the scheduler has admitted this frontend and it is not
// draining.
func (c *Client) Ready() bool { return c.admitted.Load() != nil && !c.draining.Load() }

// Serving reports whether a backend serves any model.
func (c *Client) Serving() bool {
	s := c.models.Load()
	return s != nil && s.serves()
}

// InFlight is the number of open requests.
func (c *Client) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Len()
}

// WaitReady waits until each named model has a backend.
func (c *Client) WaitReady(ctx context.Context, models ...string) error {
	return c.wait(ctx, func() bool {
		if !c.Ready() {
			return false
		}
		for _, name := range models {
			if e, err := c.Model(name, ""); err != nil || !e.Ready {
				return false
			}
		}
		return true
	})
}

// wait waits for a condition that catalogue and admission decide.
func (c *Client) wait(ctx context.Context, ok func() bool) error {
	for {
		changed := *c.changed.Load()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.stop:
			return transport.ErrClosed
		}
	}
}

// signal ends every wait for a moment.
func (c *Client) signal() {
	next := make(chan struct{})
	close(*c.changed.Swap(&next))
}

// Drain refuses new requests, waits until the open ones are answered or ctx
// ends, and closes.
func (c *Client) Drain(ctx context.Context) error {
	c.draining.Store(true)
	var err error
	for c.InFlight() > 0 && err == nil {
		select {
		case <-ctx.Done():
			err = fmt.Errorf("frontend: %d requests still open: %w", c.InFlight(), ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
	if a := c.admitted.Load(); a != nil {
		_ = a.link.Send((&wire.Leave{Epoch: a.epoch}).Append(nil))
	}
	return errors.Join(err, c.Close())
}

// Close ends the client at once; open requests are answered with ErrUnavailable.
// Not from within a done function: it waits for the goroutines that call those.
func (c *Client) Close() error {
	var err error
	c.closing.Do(func() {
		c.draining.Store(true)
		close(c.stop)
		if c.keeper != nil {
			c.keeper.Close()
		}
		c.failAll(wire.ReasonDraining)
		c.loops.Wait()
		c.failAll(wire.ReasonDraining) // what was let in meanwhile; later ones see that there is no admission
		err = c.data.Close()
		c.refusals.Close()
		c.labels.bad.Close()
		c.metrics.unregister()
		err = errors.Join(err, c.arena.Close())
	})
	return err
}
