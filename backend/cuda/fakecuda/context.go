package fakecuda

import (
	"fmt"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// primary is a device's one context, from the first Open to the last Close. The GPU's
// lock guards it.
type primary struct {
	g       *GPU
	handles []*context
	lost    error // why nothing can be done with it; nil: it lives
	blocks  []*block
	library int64     // bytes of Config.Libraries, once they are taken
	alive   []*stream // whose goroutines have not ended
	running []*stream // at work on memory now

	// One thing at a time each.
	copyIn, copyOut, compute engine
}

// context is what Open gives: one holder of the primary context.
type context struct {
	d *Driver
	g *GPU
	p *primary

	// Guarded by g.mu.
	open   Counts // made of it, and not closed; Pinned is in Driver.pinned
	closed bool
}

func (c *context) Info() cuda.Info {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	return c.g.info
}

// Enter makes the primary context the thread's, also a lost one: what was made of it
// must be closed.
func (c *context) Enter() error {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if c.closed {
		return c.d.misuse("Enter of a closed context")
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.threads[thread()] = c.p
	return nil
}

// begin begins a call: it takes the lock, unless the call is wrong or the device is lost.
func (c *context) begin(what string) error {
	err := c.beginClose(what)
	if err == nil && c.p.lost != nil {
		err = c.p.lost
		c.g.mu.Unlock()
	}
	return err
}

// beginClose is begin for calls that close something: a lost device lets them.
func (c *context) beginClose(what string) error {
	c.g.mu.Lock()
	var err error
	switch {
	case c.closed:
		err = c.d.misuse("%s after its context's Close", what)
	case c.d.current() != c.p:
		err = c.d.misuse("%s on a thread that has not entered the context of GPU %d (cuda.On)", what, c.g.info.Index)
	default:
		return nil
	}
	c.g.mu.Unlock()
	return err
}

func (c *context) Memory() (free, total int64, err error) {
	if err := c.begin("Memory"); err != nil {
		return 0, 0, err
	}
	defer c.g.mu.Unlock()
	return max(0, c.g.info.Memory-c.g.used), c.g.info.Memory, nil
}

func (c *context) NewStream(bool) (cuda.Stream, error) {
	if err := c.begin("NewStream"); err != nil {
		return nil, err
	}
	defer c.g.mu.Unlock()
	c.g.streams++
	c.open.Streams++
	s := &stream{c: c, g: c.g, handle: c.g.streams << 8, ended: make(chan struct{})}
	c.p.live(s)
	go s.run()
	return s, nil
}

// live keeps the streams whose goroutines have not ended, for Close to wait for. The lock
// is held.
func (p *primary) live(s *stream) {
	kept := p.alive[:0]
	for _, old := range p.alive {
		select {
		case <-old.ended:
		default:
			kept = append(kept, old)
		}
	}
	p.alive = append(kept, s)
}

func (c *context) NewEvent() (cuda.Event, error) {
	if err := c.begin("NewEvent"); err != nil {
		return nil, err
	}
	defer c.g.mu.Unlock()
	c.open.Events++
	return &event{c: c}, nil
}

// Close ends what streams that were closed still had to do, if it is the last one.
func (c *context) Close() error {
	c.g.mu.Lock()
	if c.closed {
		c.g.mu.Unlock()
		return c.d.misuse("Close of a closed context")
	}
	open := c.open
	open.Pinned, open.PinnedBytes = c.d.pinnedBy(c)
	if open != (Counts{}) {
		c.g.mu.Unlock()
		return c.d.misuse("Close of a context of which is open: %+v", open)
	}
	c.closed = true
	handles := c.p.handles[:0]
	for _, other := range c.p.handles {
		if other != c {
			handles = append(handles, other)
		}
	}
	c.p.handles = handles
	if len(handles) == 0 {
		c.p.lose(fmt.Errorf("%w: GPU %d: its context was closed", cuda.ErrLost, c.g.info.Index))
		c.g.primary = nil
		c.g.used -= c.p.library
		c.d.leave(c.p)
	}
	streams := c.p.alive
	c.g.mu.Unlock()
	if len(handles) == 0 {
		for _, s := range streams {
			<-s.ended
		}
	}
	return nil
}

// leave takes the primary context from all threads: it is gone.
func (d *Driver) leave(p *primary) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, entered := range d.threads {
		if entered == p {
			delete(d.threads, id)
		}
	}
}

// lose ends all that is under way; the first reason stays. The lock is held.
func (p *primary) lose(why error) {
	if p.lost == nil {
		p.lost = why
	}
	p.g.cond.Broadcast()
}

func (g *GPU) errLost(why string) error {
	return fmt.Errorf("%w: GPU %d: %s", cuda.ErrLost, g.info.Index, why)
}
