package transport

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// KeepConfig says which link KeepWith holds up. Network, Address and Handler are
// required, the funcs may be nil.
type KeepConfig struct {
	Network Network
	Address string
	Options Options
	Handler Handler // of every link, one after the other

	// OnUp gets each new link, before the Keeper hands it out and before the
	// Handler gets its first frame: the place for the first message. It must not
	// wait for a frame.
	OnUp func(l Link)
	// OnDown comes after the Handler's Closed of a link that was up.
	OnDown func(err error)
	// OnFail gets an attempt's error, or the end of a link that the peer refused
	// with its first words (ErrRejected), when it differs from the one before but
	// for numbers, and from then on at growing intervals: a log line once, not
	// twice a second. Attempts go on in every case, also after a refusal that
	// waiting alone will not cure: the other side may be restarted with another
	// version or token.
	OnFail func(err error)

	Seed    uint64   // of the jitter, so that many peers do not come back at once
	Attempt mono.Dur // limit of one attempt (default 2 s)
	// Patience is how old the Keeper may be while AwaitFirst still waits (default 100
	// ms). Most links are up within a few; a peer that cannot be dialled must not hold
	// up whoever asks, again and again.
	Patience mono.Dur
}

// Back-off between attempts: doubling from backoffMin to backoffMax. A peer that
// refuses us, or speaks another version, is there, and what is wrong takes people: then a
// refusedPart of the time since its first refusal, up to refusedMax. So a peer that
// refused for a minute, because it was draining, is found again within a quarter of that.
const (
	backoffMin  = 50 * mono.Millisecond
	backoffMax  = 500 * mono.Millisecond
	refusedMax  = 30 * mono.Second
	refusedPart = 4
)

// The same failure is told again after tellMin, then at intervals that double up to tellMax.
const (
	tellMin = 60 * mono.Second
	tellMax = 3600 * mono.Second
)

// Keeper holds one outgoing link up until it is closed.
type Keeper struct {
	c     KeepConfig
	born  mono.Time
	stop  context.CancelFunc
	done  chan struct{}
	link  atomic.Pointer[Link]
	first waiters

	// Owned by run.
	rng     *rand.Rand
	backoff backoff
	failure failure
}

// Keep is KeepWith for the common case: up on each new link, failed when an
// attempt fails for another reason than the last one (either may be nil), until
// Close.
func Keep(n Network, address string, o Options, h Handler, up func(Link), failed func(error)) *Keeper {
	c := KeepConfig{Network: n, Address: address, Options: o, Handler: h, OnUp: up, OnFail: failed, Seed: rand.Uint64()}
	return KeepWith(context.Background(), c)
}

// KeepWith starts to dial and never gives up before ctx ends or Close.
func KeepWith(ctx context.Context, c KeepConfig) *Keeper {
	if c.Attempt <= 0 {
		c.Attempt = 2 * mono.Second
	}
	if c.Patience <= 0 {
		c.Patience = 100 * mono.Millisecond
	}
	if c.OnUp == nil {
		c.OnUp = func(Link) {}
	}
	if c.OnDown == nil {
		c.OnDown = func(error) {}
	}
	if c.OnFail == nil {
		c.OnFail = func(error) {}
	}
	ctx, stop := context.WithCancel(ctx)
	k := &Keeper{c: c, born: mono.Now(), stop: stop, done: make(chan struct{}), rng: rand.New(rand.NewPCG(c.Seed, 0x6b656570))}
	go k.run(ctx)
	return k
}

// Link is the live link; nil while there is none.
func (k *Keeper) Link() Link {
	if p := k.link.Load(); p != nil {
		return *p
	}
	return nil
}

// Send is Link().Send, ErrClosed while there is no link.
func (k *Keeper) Send(frames []byte) error {
	if l := k.Link(); l != nil {
		return l.Send(frames)
	}
	return ErrClosed
}

// Close ends the attempts, closes the link (flushing) and waits for Handler
// and OnDown to be told. Not from within them.
func (k *Keeper) Close() {
	k.stop()
	<-k.done
}

// Done is closed when the keeper has ended.
func (k *Keeper) Done() <-chan struct{} { return k.done }

func (k *Keeper) run(ctx context.Context) {
	defer close(k.done)
	defer k.first.tell(nil)
	defer k.stop()
	for ctx.Err() == nil {
		lived, err := k.attempt(ctx)
		k.sleep(ctx, k.backoff.next(mono.Now(), lived, err))
	}
}

// attempt dials once and stays for the link's life; lived is how long it was.
func (k *Keeper) attempt(ctx context.Context) (lived mono.Dur, err error) {
	s := &session{k: k, ready: make(chan struct{}), gone: make(chan error, 1)}
	dial, cancel := context.WithTimeout(ctx, k.c.Attempt.Std())
	l, err := k.c.Network.Dial(dial, k.c.Address, k.c.Options, s)
	cancel()
	if err != nil {
		k.fail(ctx, err)
		return 0, err
	}
	up := mono.Now()
	k.c.OnUp(l)
	k.link.Store(&l)
	close(s.ready)
	k.first.tell(l)
	select {
	case err = <-s.gone:
	case <-ctx.Done():
		l.Close(nil)
		err = <-s.gone
	}
	k.c.OnDown(err)
	lived = mono.Now().Sub(up)
	if refused(err) && lived < livedMin {
		k.fail(ctx, err)
		return lived, err
	}
	k.failure = failure{}
	return lived, nil
}

// livedMin is the life of a link whose peer has not refused us with its first words.
const livedMin = 5 * mono.Second

func (k *Keeper) fail(ctx context.Context, err error) {
	if ctx.Err() == nil && k.failure.tell(mono.Now(), err) {
		k.c.OnFail(err)
	}
}

// sleep waits between half of d and d.
func (k *Keeper) sleep(ctx context.Context, d mono.Dur) {
	t := time.NewTimer((d/2 + mono.Dur(k.rng.Int64N(int64(d/2)))).Std())
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// session passes one link's calls on to the handler, from OnUp on.
type session struct {
	k     *Keeper
	ready chan struct{} // closed once OnUp has returned
	gone  chan error
	open  bool // Owned by the link's receiving goroutine.
}

func (s *session) await() {
	if !s.open {
		<-s.ready
		s.open = true
	}
}

// Receive passes on.
func (s *session) Receive(l Link, f Frame) {
	s.await()
	s.k.c.Handler.Receive(l, f)
}

// Buffer passes on.
func (s *session) Buffer(l Link, kind wire.Kind, body []byte, n int) []byte {
	s.await()
	return s.k.c.Handler.Buffer(l, kind, body, n)
}

// PayloadMax passes on.
func (s *session) PayloadMax(l Link, kind wire.Kind) int {
	if h, ok := s.k.c.Handler.(Limiter); ok {
		return h.PayloadMax(l, kind)
	}
	return wire.PayloadMax
}

// Closed takes the link away first, so that nobody who asks after the
// handler was told finds the dead one.
func (s *session) Closed(l Link, err error) {
	s.await()
	s.k.link.Store(nil)
	s.k.c.Handler.Closed(l, err)
	s.gone <- err
}
