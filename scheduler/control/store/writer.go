package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// Writer writes documents that one process changes often, in the background: what changes
// again before it was written is written once, and a thousand documents are ten
// transactions. While etcd is away the newest of each waits; so what waits is bounded by
// the documents.
type Writer[T schema.Document] struct {
	t      *Table[T]
	guards []Guard
	gather time.Duration
	kick   chan struct{}
	done   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex    // Guards what follows.
	waiting map[string]*T // nil: to be deleted
	writing int           // documents that are on their way
	idle    chan struct{} // closed when nothing waits or is on its way
	err     error         // why it ended
}

// gatherDefault is how long changes are gathered. It is what a watcher of progress does not
// notice.
const gatherDefault = 50 * time.Millisecond

// Writer makes one that ends with ctx, when a guard does not hold any more, or with Close.
func (t *Table[T]) Writer(ctx context.Context, guards ...Guard) *Writer[T] {
	w := &Writer[T]{t: t, guards: guards, gather: gatherDefault, kick: make(chan struct{}, 1), done: make(chan struct{}),
		waiting: map[string]*T{}, idle: make(chan struct{})}
	close(w.idle)
	w.ctx, w.cancel = context.WithCancel(ctx)
	stop := context.AfterFunc(t.s.ctx, w.cancel)
	if !t.s.start(func() {
		defer close(w.done)
		defer w.cancel()
		defer stop()
		err := w.run()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
	}) {
		w.cancel()
		w.err = ErrClosed
		close(w.done)
	}
	return w
}

// Put writes a document soon. It refuses what could not be written.
func (w *Writer[T]) Put(v T) error {
	if _, err := schema.PairOf(w.t.kind, v); err != nil {
		return err
	}
	return w.add(v.ID(), &v)
}

// Delete deletes a document soon.
func (w *Writer[T]) Delete(id string) error { return w.add(id, nil) }

func (w *Writer[T]) add(id string, v *T) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	default:
	}
	if _, known := w.waiting[id]; !known && len(w.waiting) >= w.t.kind.CountMax {
		return &FullError{w.t.kind.Name, w.t.kind.CountMax}
	}
	if len(w.waiting) == 0 && w.writing == 0 {
		w.idle = make(chan struct{})
	}
	w.waiting[id] = v
	select {
	case w.kick <- struct{}{}:
	default:
	}
	return nil
}

// Waiting is how many documents are not written yet.
func (w *Writer[T]) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting) + w.writing
}

// Flush waits until all is written.
func (w *Writer[T]) Flush(ctx context.Context) error {
	w.mu.Lock()
	idle := w.idle
	w.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-w.done:
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends it; what waits is not written: Flush first.
func (w *Writer[T]) Close() {
	w.cancel()
	<-w.done
}

func (w *Writer[T]) run() error {
	for {
		select {
		case <-w.kick:
		case <-w.ctx.Done():
			return w.ended()
		}
		if !sleep(w.ctx, w.gather) {
			return w.ended()
		}
		for {
			batch := w.take()
			if len(batch) == 0 {
				break
			}
			err := w.write(batch)
			w.settle(batch, err)
			var away *AwayError
			if errors.As(err, &away) {
				if !w.t.s.pause(w.ctx, watchRetry) {
					return w.ended()
				}
			} else if err != nil {
				return err
			}
		}
	}
}

func (w *Writer[T]) ended() error {
	if w.t.s.ctx.Err() != nil {
		return ErrClosed
	}
	return context.Cause(w.ctx)
}

// take takes what waits, at most what goes in a few transactions: so that what changes
// meanwhile is written once.
func (w *Writer[T]) take() map[string]*T {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := make(map[string]*T, min(len(w.waiting), 10*opsMax))
	for id, v := range w.waiting {
		if len(batch) == 10*opsMax {
			break
		}
		batch[id] = v
		delete(w.waiting, id)
	}
	w.writing = len(batch)
	return batch
}

func (w *Writer[T]) write(batch map[string]*T) error {
	var puts []T
	var deletes []string
	for id, v := range batch {
		if v == nil {
			deletes = append(deletes, id)
		} else {
			puts = append(puts, *v)
		}
	}
	return w.t.Write(w.ctx, puts, deletes, w.guards...)
}

// settle puts back what was not written, unless there is something newer.
func (w *Writer[T]) settle(batch map[string]*T, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = 0
	if err != nil {
		for id, v := range batch {
			if _, newer := w.waiting[id]; !newer {
				w.waiting[id] = v
			}
		}
	}
	if len(w.waiting) == 0 {
		close(w.idle)
	}
}
