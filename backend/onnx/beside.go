//go:build cgo

package onnx

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Beside runs a session on a thread of its own, for work that no request waits for: a model is
// measured so, beside the devices that serve, and takes no time from them. The session may be one that
// a device has, as long as that does not run it.
//
// The thread has the lowest priority, so that serving threads and the loops go first. Where it
// computes alone, a batch has taken the processor time of the thread: waits for a processor are
// not the model's.
type Beside struct {
	intake
	session *Session
	nice    int
	alone   bool
	options *ort.RunOptions
	ended   chan struct{}
	over    bool // the thread has ended. Guarded by the intake's mu
}

// NewBeside starts the thread, once no other Beside has the session. threads is how many the
// session was opened with: those of ONNX Runtime keep the priority of the thread that made
// them. urgent: nothing is served yet, and the thread has the priority of executing ones.
func NewBeside(ctx context.Context, s *Session, threads int, urgent bool) (*Beside, error) {
	o, err := ort.NewRunOptions()
	if err != nil {
		return nil, err
	}
	if err := s.lease.take(ctx); err != nil {
		return nil, errors.Join(err, o.Destroy())
	}
	d := &Beside{session: s, nice: nice.Most, alone: threads <= 1 && !urgent, options: o, intake: intake{batches: make(chan *executor.Batch, 1)}, ended: make(chan struct{})}
	if urgent || threads > 1 {
		d.nice = niceness
	}
	go d.run()
	return d, nil
}

// Close implements executor.Device. It does not wait: a run is ended between two of its nodes,
// and has the session until then.
func (d *Beside) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	close(d.batches)
	if !d.over {
		_ = d.options.Terminate() // else the run goes on to its own end
	}
}

// Ended is closed when the last run has ended after Close, and the session is free.
func (d *Beside) Ended() <-chan struct{} { return d.ended }

func (d *Beside) run() {
	defer close(d.ended)
	defer d.session.lease.give()
	defer d.end()
	runtime.LockOSThread() // and never unlocked: the thread keeps its niceness and ends with the goroutine
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), d.nice)
	for b := range d.batches {
		start, used := mono.Now(), threadTime()
		err := d.session.runWith(b, d.options)
		end := mono.Now()
		if used := threadTime() - used; d.alone && used > 0 {
			end = min(end, start.Add(used))
		}
		b.Finish(start, end, err)
	}
}

// end gives the options back.
func (d *Beside) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	_ = d.options.Destroy() // it never fails
}

// threadTime is the processor time that the thread has used; 0: unknown.
func threadTime() mono.Dur {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return mono.Dur(t.Nano())
}

// lease is a session's use beside its device. Closing the session does not wait for the lease: the
// session is unloaded when the lease ends.
type lease struct {
	mu      sync.Mutex // Guards what follows.
	freed   chan struct{}
	closing func()
	gone    bool
}

// take waits until no other has the session.
func (l *lease) take(ctx context.Context) error {
	for {
		l.mu.Lock()
		if l.gone || l.closing != nil {
			l.mu.Unlock()
			return errClosed
		}
		freed := l.freed
		if freed == nil {
			l.freed = make(chan struct{})
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return fmt.Errorf("a run of it that was given up has not ended: %w", ctx.Err())
		}
	}
}

func (l *lease) give() {
	l.mu.Lock()
	close(l.freed)
	l.freed = nil
	then := l.closing
	l.gone = l.gone || then != nil
	l.closing = nil
	l.mu.Unlock()
	if then != nil {
		then()
	}
}

// whenFree calls f once: now, or when the session is given back.
func (l *lease) whenFree(f func()) {
	l.mu.Lock()
	if l.freed != nil {
		l.closing = f
		l.mu.Unlock()
		return
	}
	l.gone = true
	l.mu.Unlock()
	f()
}
