package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Back-off of a Keeper: it doubles from the first to the last, with jitter,
// so that a restarted scheduler is found within half a second and not by all
// peers in the same instant.
const (
	backoffFirst = 50 * mono.Millisecond
	backoffLast  = 500 * mono.Millisecond
	dialTimeout  = 2 * mono.Second
)

// Keeper keeps one outgoing link up: it dials, and dials again whenever the
// link is gone. Its handler sees every link's frames and end.
type Keeper struct {
	network Network
	address string
	options Options
	handler Handler
	up      func(Link)
	failed  func(error)

	link   atomic.Pointer[Link]
	cancel context.CancelFunc
	done   chan struct{}
	lost   chan struct{}
}

// Keep starts a Keeper. up is called on each new link, before the Keeper hands
// it out; failed when an attempt fails for another reason than the last one.
// Both may be nil. They run on the Keeper's goroutine.
func Keep(n Network, address string, o Options, h Handler, up func(Link), failed func(error)) *Keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &Keeper{network: n, address: address, options: o, handler: h, up: up, failed: failed,
		cancel: cancel, done: make(chan struct{}), lost: make(chan struct{}, 1)}
	go k.run(ctx)
	return k
}

// Link is the present link; nil while there is none.
func (k *Keeper) Link() Link {
	if p := k.link.Load(); p != nil {
		return *p
	}
	return nil
}

// Close ends the Keeper and its link, flushing what was queued.
func (k *Keeper) Close() {
	k.cancel()
	<-k.done
}

func (k *Keeper) run(ctx context.Context) {
	defer close(k.done)
	pause, lastError := backoffFirst, ""
	for ctx.Err() == nil {
		link, err := k.dial(ctx)
		if err != nil {
			if k.failed != nil && err.Error() != lastError && ctx.Err() == nil {
				k.failed(err)
			}
			lastError = err.Error()
			if errors.Is(err, ErrVersion) || errors.Is(err, ErrRejected) {
				pause = backoffLast // it will not change by asking often
			}
			sleep(ctx, pause+mono.Dur(rand.Int64N(int64(pause)/4)))
			pause = min(2*pause, backoffLast)
			continue
		}
		pause, lastError = backoffFirst, ""
		if k.up != nil {
			k.up(link)
		}
		k.link.Store(&link)
		select {
		case <-k.lost:
		case <-ctx.Done():
			k.link.Store(nil)
			link.Close(nil)
			<-k.lost
		}
		k.link.Store(nil)
	}
}

func (k *Keeper) dial(ctx context.Context) (Link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout.Std())
	defer cancel()
	return k.network.Dial(ctx, k.address, k.options, keeperHandler{k})
}

func sleep(ctx context.Context, d mono.Dur) {
	t := time.NewTimer(d.Std())
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// keeperHandler passes everything on, and tells the Keeper of the end.
type keeperHandler struct{ k *Keeper }

func (h keeperHandler) Receive(l Link, f Frame) { h.k.handler.Receive(l, f) }

func (h keeperHandler) Buffer(l Link, kind wire.Kind, body []byte, n int) []byte {
	return h.k.handler.Buffer(l, kind, body, n)
}

func (h keeperHandler) Closed(l Link, err error) {
	h.k.link.Store(nil)
	h.k.handler.Closed(l, err)
	h.k.lost <- struct{}{}
}
