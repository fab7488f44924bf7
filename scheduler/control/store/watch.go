package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// Watch follows a table. It tells the state, not the history: what changes again before it is
// taken is told once, as it is then.
//
//	etcd --snapshot, changes--> run --merge by id--> pending --Take--> the caller
//
// A snapshot is compared with what was told before. So after a compaction, a reconnection or
// a restored backup the caller learns only of what differs, and of what is gone.
type Watch[T schema.Document] struct {
	t     *Table[T]
	ctx   context.Context
	ready chan struct{} // has a token while something is pending
	done  chan struct{}

	// Owned by run.
	next  int64            // revision to go on from; 0: from a snapshot
	known map[string]int64 // id -> revision, of all that there is
	blind bool             // known is not all: the caller began from a revision of its own

	mu      sync.Mutex // Guards what follows.
	pending map[string]Change[T]
	whole   bool
	seen    int64 // all up to here is in pending or was taken
}

// Change is what became of a document.
type Change[T any] struct {
	ID       string
	Value    T     // zero, if it is gone
	Revision int64 // of the change
	Gone     bool
}

// Changes are what Take returns, in the order of ids.
type Changes[T any] struct {
	Whole    bool  // these are all there are: what the caller has beside them is gone
	Revision int64 // the state as of here; a later Watch may begin from it
	Changes  []Change[T]
}

const (
	watchRetry = 250 * time.Millisecond // after a watch broke; longer while etcd is away
)

// Watch follows the table until ctx or the store ends. It begins with all documents
// (Changes.Whole), or, with the Revision of earlier Changes, with what changed since.
func (t *Table[T]) Watch(ctx context.Context, since int64) *Watch[T] {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watch[T]{t: t, ctx: ctx, ready: make(chan struct{}, 1), done: make(chan struct{}), pending: map[string]Change[T]{},
		known: map[string]int64{}, blind: since > 0}
	if since > 0 {
		w.next = since + 1
	}
	stop := context.AfterFunc(t.s.ctx, func() { cancel(ErrClosed) })
	if !t.s.start(func() {
		defer close(w.done)
		defer cancel(nil)
		defer stop()
		w.run()
	}) {
		cancel(ErrClosed)
		close(w.done)
	}
	return w
}

// Ready has a token when Take has something, for a select over several watches.
func (w *Watch[T]) Ready() <-chan struct{} { return w.ready }

// Done is closed when the watch has ended, with ctx or the store.
func (w *Watch[T]) Done() <-chan struct{} { return w.done }

// Take returns what is pending, which may be nothing.
func (w *Watch[T]) Take() Changes[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := Changes[T]{Whole: w.whole, Revision: w.seen, Changes: make([]Change[T], 0, len(w.pending))}
	for _, one := range w.pending {
		c.Changes = append(c.Changes, one)
	}
	slices.SortFunc(c.Changes, func(a, b Change[T]) int { return cmp.Compare(a.ID, b.ID) })
	clear(w.pending)
	w.whole = false
	select {
	case <-w.ready:
	default:
	}
	return c
}

// Next waits until there is something, and takes it.
func (w *Watch[T]) Next(ctx context.Context) (Changes[T], error) {
	select {
	case <-w.ready:
		return w.Take(), nil
	case <-w.done:
		return Changes[T]{}, context.Cause(w.ctx)
	case <-ctx.Done():
		return Changes[T]{}, context.Cause(ctx)
	}
}

// tell leaves a token. mu is held.
func (w *Watch[T]) tell() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// merge adds what a snapshot or an answer brought.
func (w *Watch[T]) merge(whole bool, changes []Change[T], revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = max(revision, w.seen)
	if whole {
		clear(w.pending)
		w.whole, w.seen = true, revision
	}
	for _, c := range changes {
		if w.whole && c.Gone {
			delete(w.pending, c.ID) // it is not among all there are
			continue
		}
		w.pending[c.ID] = c
	}
	if whole || len(changes) > 0 {
		w.tell()
	}
}

func (w *Watch[T]) run() {
	_, age, _ := w.t.s.health.now()
	for w.ctx.Err() == nil {
		var err error
		if w.next == 0 {
			err = w.snapshot()
		}
		if err == nil {
			err = w.follow(age)
		}
		_, now, _ := w.t.s.health.now()
		if now != age { // another etcd: its revisions say nothing of what was told
			for id := range w.known {
				w.known[id] = -1
			}
		}
		if now != age || errors.Is(err, rpctypes.ErrCompacted) {
			age, w.next = now, 0
			continue
		}
		if err != nil && w.ctx.Err() == nil {
			w.t.s.cfg.Logger.Debug().Err(err).Str("kind", w.t.kind.Name).Msg("the watch is begun again")
		}
		if !w.t.s.pause(w.ctx, watchRetry) {
			return
		}
	}
}

// snapshot reads all, and tells what differs from what was told.
func (w *Watch[T]) snapshot() error {
	all, revision, err := w.t.All(w.ctx)
	if err != nil {
		return err
	}
	whole := w.blind || w.next == 0 && len(w.known) == 0
	w.blind = false
	var changes []Change[T]
	there := make(map[string]int64, len(all))
	for _, e := range all {
		there[e.ID] = e.Revision
		if whole || w.known[e.ID] != e.Revision {
			changes = append(changes, Change[T]{ID: e.ID, Value: e.Value, Revision: e.Revision})
		}
	}
	for id := range w.known {
		if _, ok := there[id]; !ok && !whole {
			changes = append(changes, Change[T]{ID: id, Revision: revision, Gone: true})
		}
	}
	w.known, w.next = there, revision+1
	w.merge(whole, changes, revision)
	return nil
}

// follow tells changes from next on, until the watch breaks or etcd becomes another one.
func (w *Watch[T]) follow(age int) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(w.ctx))
	defer cancel()
	answers := w.t.s.client.Watch(ctx, w.t.folder(), clientv3.WithPrefix(), clientv3.WithRev(w.next), clientv3.WithProgressNotify())
	_, _, changed := w.t.s.health.now()
	for {
		select {
		case resp, ok := <-answers:
			if !ok {
				return context.Cause(ctx)
			}
			if err := resp.Err(); err != nil {
				return err
			}
			w.apply(resp)
		case <-changed:
			var now int
			if _, now, changed = w.t.s.health.now(); now != age {
				return nil
			}
		}
	}
}

func (w *Watch[T]) apply(resp clientv3.WatchResponse) {
	changes := make([]Change[T], 0, len(resp.Events))
	for _, ev := range resp.Events {
		id := strings.TrimPrefix(string(ev.Kv.Key), w.t.folder())
		gone := Change[T]{ID: id, Revision: ev.Kv.ModRevision, Gone: true}
		if ev.Type == clientv3.EventTypeDelete {
			delete(w.known, id)
			changes = append(changes, gone)
			continue
		}
		e, err := w.t.entry(ev.Kv)
		if err != nil { // as in a snapshot, it is not there
			w.t.unreadable(err)
			delete(w.known, id)
			changes = append(changes, gone)
			continue
		}
		w.known[id] = e.Revision
		changes = append(changes, Change[T]{ID: id, Value: e.Value, Revision: e.Revision})
	}
	w.next = resp.Header.Revision + 1
	w.t.s.told(resp.Header.Revision)
	w.merge(false, changes, resp.Header.Revision)
}
