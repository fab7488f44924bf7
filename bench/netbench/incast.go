package netbench

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
)

// tail is how much of every destination is wiped and compared each round.
const tail = 16

// round READs the ops of all links at once, as a backend does for a batch, and
// returns the time from the first Read to the last byte.
func (c *client) round() (mono.Dur, error) {
	return c.read(0, len(c.ops), func() {
		for i, l := range c.links {
			c.issue(l, c.first[i], c.first[i+1])
		}
	})
}

// alone READs one object with nothing else under way.
func (c *client) alone(i int) (mono.Dur, error) {
	link := 0
	for c.first[link+1] <= i {
		link++
	}
	return c.read(i, i+1, func() { c.issue(c.links[link], i, i+1) })
}

// issue sends one Read; every op's Done is called in either case.
func (c *client) issue(l transport.Link, from, to int) {
	now := mono.Now()
	for i := from; i < to; i++ {
		c.objects[i].start = now
	}
	_ = l.Read(c.ops[from:to])
}

// read waits for the objects in [from, to) that issue asks for.
func (c *client) read(from, to int, issue func()) (mono.Dur, error) {
	c.left.Store(int64(to - from))
	start := mono.Now()
	issue()
	<-c.landed
	end := start
	for i := from; i < to; i++ {
		o := &c.objects[i]
		if o.err != nil {
			return 0, fmt.Errorf("%s: READ of object %d: %w", c.way.Name, i, o.err)
		}
		end = max(end, o.end)
	}
	return end.Sub(start), nil
}

// done is every op's Done.
func (c *client) done(token uint64, err error) {
	o := &c.objects[token] // one READ's at a time
	o.end, o.err = mono.Now(), err
	if c.left.Add(-1) == 0 {
		c.landed <- struct{}{}
	}
}

// wipe prepares a check: object at as a whole, and of the others the end.
func (c *client) wipe(at int) {
	for i := range c.objects {
		dst := c.objects[i].dst
		clear(dst[max(0, len(dst)-tail):])
	}
	clear(c.objects[at].dst)
}

// check compares what wipe wiped.
func (c *client) check(at int) error {
	for i := range c.objects {
		o := &c.objects[i]
		from := len(o.dst) - tail
		if i == at {
			from = 0
		}
		if wrong := firstWrong(o.dst, o.Request, max(0, from)); wrong >= 0 {
			return fmt.Errorf("%w: %s, object %d, from byte %d of %d on", ErrWrongBytes, c.way.Name, i, wrong, len(o.dst))
		}
	}
	return nil
}
