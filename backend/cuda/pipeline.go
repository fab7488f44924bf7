package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// pipeline is a device from its opening until it is closed or lost. A batch has a slot, and
// passes three threads:
//
//	Launch -> copies: queues the copy in -> runs: queues the program and the copy out
//	       -> waits: until the outputs are there; Finish
//
// Each has the context entered, and ends when the one before has. A lost pipeline finishes
// all of its batches at once; what the threads then still carry is dropped.
type pipeline struct {
	rt    Runtime // Immutable.
	ctx   Context // Immutable.
	info  Info    // Immutable.
	o     Options // Immutable.
	stats *Stats  // Immutable.

	// Made by load, given back by unload, else immutable.
	in, compute, out Stream
	models           []*served // by index in batches; nil: refused, or lost to Keep. From then on guarded by mu
	refused          []*RefusedError

	step    atomic.Int64 // when the last step of load began
	copies  chan *slot
	runs    chan *slot
	waits   chan *slot
	waited  chan struct{} // the waiting thread has ended
	calls   chan func()   // for the run thread
	calling atomic.Bool   // a call runs something: batches wait for it
	ending  chan struct{} // closed: the run thread takes no more calls
	loaders sync.WaitGroup
	left    chan struct{} // nobody waits any more for the loading
	told    chan struct{} // lost, and Losing has been told
	dropped chan struct{} // and all batches are finished
	done    chan struct{} // all is given back
	gone    atomic.Bool   // lost is set: for threads to look at
	warned  sync.Once
	slots   [Depth]slot
	prev    past // owned by the waiting thread
	badRuns int  // in a row; likewise

	mu       sync.Mutex // Guards what follows.
	first    int        // slot of the oldest batch
	count    int        // batches under way
	since    mono.Time  // when the oldest became that
	armed    bool       // the watchdog's timer runs
	suspect  mono.Time  // the since of a batch that is over its time
	watchdog *time.Timer
	closing  bool
	over     bool            // copies is closed
	orphans  []*served       // that could not be given back
	asides   map[int]*served // models beside those of slots, by negative index
	lost     error
}

// slot is a place for one batch, and the batch in there. It belongs to the thread that has
// it, until the batch is taken out.
type slot struct {
	// Immutable once loaded.
	index                              int
	inBegin, inEnd, begin, end, outEnd Event
	stageIn, stageOut                  []byte // pinned; the host's side of batches that are rearranged

	// The batch. The executor's Batch is its own again after Finish, which may come while a
	// thread is still here: so what is needed of it is kept.
	model         *served
	size, rounded int // rounded: index of the ladder's size
	input, output []byte
	finish        func(start, end mono.Time, err error)
	err           error // it has failed
	marked        bool  // outEnd was recorded: it ends when that is reached
}

func (s *slot) events() []*Event { return []*Event{&s.inBegin, &s.inEnd, &s.begin, &s.end, &s.outEnd} }

// newPipeline opens the device: it returns when the models are loaded, also with those that
// were not. With an error all has been given back, or left alone.
func newPipeline(d *Device, c Context) (*pipeline, []*RefusedError, error) {
	p := &pipeline{rt: d.rt, ctx: c, info: c.Info(), o: d.o, stats: &d.stats, copies: make(chan *slot, Depth), runs: make(chan *slot, Depth),
		waits: make(chan *slot, Depth), waited: make(chan struct{}), calls: make(chan func()), ending: make(chan struct{}), told: make(chan struct{}), dropped: make(chan struct{}), left: make(chan struct{}), done: make(chan struct{}), asides: map[int]*served{}}
	for i := range p.slots {
		p.slots[i].index = i
	}
	p.step.Store(int64(mono.Now()))
	loaded := make(chan error)
	go p.runThread(d.models, loaded)
	var err error
	if stalled := p.await(loaded, d.quit, &err); stalled != nil {
		close(p.left)
		return p, nil, stalled
	}
	if err != nil {
		_ = within(closeMax, func() error { <-p.done; return nil })
		return p, p.refused, err
	}
	p.watchdog = time.AfterFunc(time.Hour, p.watch)
	p.watchdog.Stop()
	if p.o.Pinned != nil {
		p.o.Pinned.Attach(c)
	}
	go p.copyThread()
	go p.waitThread()
	return p, p.refused, nil
}

// holds reports whether something of the device has not been given back.
func (p *pipeline) holds() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// await waits for the loading as long as its steps go on, and nobody quits; then err is how it
// ended.
func (p *pipeline) await(loaded chan error, quit chan struct{}, err *error) (stalled error) {
	look := time.NewTicker(max(time.Millisecond, p.o.Stall.Std()/10))
	defer look.Stop()
	for {
		select {
		case *err = <-loaded:
			return nil
		case <-quit:
			return errClosed
		case <-look.C:
			if since := mono.Now().Sub(mono.Time(p.step.Load())); since > p.o.Stall {
				return fmt.Errorf("%w: %s: a step of loading its models has not ended after %v", ErrLost, p.name(), since)
			}
		}
	}
}

// name is the device's in messages.
func (p *pipeline) name() string {
	return fmt.Sprintf("GPU %d (%s)", p.info.Index, p.info.Name)
}

// settle makes this goroutine's thread one of the device's, until it ends: near it. These
// threads sleep but for what they queue; they are not nice as those that compute on the CPU
// are: a GPU that waits for its next kernel is dear.
func (p *pipeline) settle() {
	runtime.LockOSThread()
	if err := near(p.info.NUMANode); err != nil {
		p.warned.Do(func() { p.o.Warn(fmt.Errorf("%s: its threads run anywhere: %w", p.name(), err)) })
	}
}

// launch takes a batch, or says why not.
func (p *pipeline) launch(b *executor.Batch) error {
	m := p.model(b.Model)
	if m == nil {
		return fmt.Errorf("%s has no model %d", p.name(), b.Model)
	}
	rounded := index(m.m.Sizes, b.Size)
	if b.Size < 1 || rounded < 0 || len(b.Input) != b.Size*m.in.item || len(b.Output) != b.Size*m.out.item {
		return fmt.Errorf("model %s: a batch of %d with %d bytes of inputs and %d of outputs; an item has %d and %d", m.m.Spec.Key(),
			b.Size, len(b.Input), len(b.Output), m.in.item, m.out.item)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.lost != nil:
		return p.lost
	case p.closing:
		return errClosed
	case p.count == Depth:
		return errFull
	}
	s := &p.slots[(p.first+p.count)%Depth]
	s.model, s.size, s.rounded, s.input, s.output, s.finish = m, b.Size, rounded, b.Input, b.Output, b.Finish
	s.err, s.marked = nil, false
	p.count++
	if p.count == 1 {
		p.since = mono.Now()
	}
	if !p.armed {
		p.armed = true
		p.watchdog.Reset(p.patience(s).Std())
	}
	p.copies <- s // there is room: as many as slots
	return nil
}

// model is that of an index; nil: there is none.
func (p *pipeline) model(i int) *served {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.modelLocked(i)
}

// modelLocked is model. Caller holds mu.
func (p *pipeline) modelLocked(i int) *served {
	switch {
	case i < 0:
		return p.asides[i]
	case i >= len(p.models):
		return nil
	}
	return p.models[i]
}

// take ends the oldest batch's stay; false: the pipeline is lost, and has finished it.
func (p *pipeline) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost != nil {
		return false
	}
	p.first, p.count = (p.first+1)%Depth, p.count-1
	p.since = mono.Now()
	if p.closing && p.count == 0 {
		p.endLocked()
	}
	return true
}

// close ends the pipeline once all is finished.
func (p *pipeline) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	if p.count == 0 {
		p.endLocked()
	}
}

// endLocked lets the threads end, the first one first. Caller holds mu.
func (p *pipeline) endLocked() {
	if !p.over {
		p.over = true
		close(p.copies)
	}
}

// keep reorders the models and unloads what is left out, on the thread of the programs.
func (p *pipeline) keep(indices []int) {
	var kept []*served
	for _, i := range indices {
		kept = append(kept, p.models[i])
	}
	_ = p.call(func() { // else it is lost: all is unloaded
		for _, s := range p.models {
			if s != nil && !slices.Contains(kept, s) {
				p.unloadModel(s)
				p.stats.Memory.Add(-s.need)
			}
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.models = kept
}

// index of the smallest size that holds n; -1: none.
func index(sizes []int, n int) int {
	for i, s := range sizes {
		if s >= n {
			return i
		}
	}
	return -1
}

// lose makes the device lost: its batches are finished, none is taken any more. Something of
// them may still be under way, now or when a hang ends: their buffers are not to be used
// again.
func (p *pipeline) lose(why error) {
	p.mu.Lock()
	if p.over { // lost already, or closed with nothing under way
		p.mu.Unlock()
		return
	}
	if !errors.Is(why, ErrLost) {
		why = fmt.Errorf("%w: %w", ErrLost, why)
	}
	why = fmt.Errorf("%s: %w", p.name(), why)
	p.lost = why
	p.gone.Store(true)
	var finish []func(start, end mono.Time, err error)
	for i := range p.count {
		finish = append(finish, p.slots[(p.first+i)%Depth].finish)
	}
	p.count = 0
	p.endLocked()
	p.mu.Unlock()

	p.o.Losing(why)
	close(p.told)
	err := fmt.Errorf("%w; %w", why, executor.ErrAstray)
	now := mono.Now()
	for _, f := range finish {
		f(now, now, err)
	}
	close(p.dropped)
	p.stats.Failed.Add(int64(len(finish)))
	p.stats.Lost.Add(1)
	go func() {
		if p.o.Pinned != nil {
			p.o.Pinned.Abandon(p.ctx)
		}
		p.o.Lost(why)
	}()
}
