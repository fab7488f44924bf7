package frontend

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/frontend/preprocess"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Limits of what waits for preprocessing.
const (
	imagesMax     = 1024
	imageBytesMax = 32 << 20
)

// imageJob is an image that waits to be preprocessed. Its call is open in the
// table already: a queue that is too long, a context that ends, or a client
// that closes answers it in time, and then the job is only thrown away.
type imageJob struct {
	id       wire.RequestID
	model    *model
	deadline mono.Time
	header   preprocess.Header
	image    []byte // ours: the caller's may change once the call is answered
	source   uint64 // Request's
}

// queueImage opens the call and hands the image to the preprocessing
// goroutines; when too much waits there, the request is refused. So is, before
// anything of it is kept, what its header says is too large.
func (c *Client) queueImage(ctx context.Context, r *Request, k *call) {
	name, size := k.model.entry.Spec.Name, int64(len(r.Image))
	h, err := preprocess.ReadHeader(r.Image)
	if err != nil {
		c.refuse(k.model, name, badInput(name, "%v", err), k.done)
		return
	}
	if err := c.checkImage(k.model, &h); err != nil {
		c.refuse(k.model, name, err, k.done)
		return
	}
	if err := c.inTime(k.model, &h, k.deadline); err != nil {
		c.refuse(k.model, name, err, k.done)
		return
	}
	if c.waiting.Add(size) > imageBytesMax {
		c.waiting.Add(-size)
		c.refuse(k.model, name, imagesFull(k.model), k.done)
		return
	}
	k.width, k.height = int32(h.Width), int32(h.Height)
	id, ok := c.register(k)
	if !ok {
		c.waiting.Add(-size)
		return
	}
	c.watch(ctx, r.ID, id)
	j := imageJob{id, k.model, k.deadline, h, r.Image, r.Source}
	if !r.ImageGiven {
		j.image = bytes.Clone(r.Image)
	}
	queue := c.images
	if h.Pixels() >= learnMin {
		queue = c.photos
	}
	select {
	case queue <- j:
		if !k.model.uplink.group.up() { // the link went; perhaps after it had answered all open calls
			c.fail(id, wire.ReasonUnavailable)
		}
	default:
		c.waiting.Add(-size)
		c.failWith(id, imagesFull(k.model))
	}
}

// checkImage refuses what is too large for this frontend, whatever its load.
func (c *Client) checkImage(m *model, h *preprocess.Header) *Error {
	name := m.entry.Spec.Name
	if h.Pixels() > int64(c.o.ImagePixels) {
		return badInput(name, "an image of %dx%d is %s, at most %s are taken (frontend.image_pixels): send a smaller one",
			h.Width, h.Height, megapixels(h.Pixels()), megapixels(int64(c.o.ImagePixels)))
	}
	if n := m.plan.Bytes(*h); n > c.memory.largest() {
		return badInput(name, "a %v of %dx%d takes %d MB to decode, there are at most %d MB for one image (7/8 of frontend.image_memory): send a smaller one, or a baseline JPEG",
			h.Format, h.Width, h.Height, n/1e6, c.memory.largest()/1e6)
	}
	return nil
}

func megapixels(n int64) string { return fmt.Sprintf("%.1f megapixels", float64(n)/1e6) }

// inTime refuses what will not be decoded by its deadline.
func (c *Client) inTime(m *model, h *preprocess.Header, deadline mono.Time) *Error {
	takes, left := c.times.of(h), deadline.Sub(mono.Now())
	if takes <= left {
		return nil
	}
	c.times.refused(h)
	return &Error{Kind: ErrDeadlineExceeded, Reason: wire.ReasonDeadline, Model: m.entry.Spec.Name,
		Msg: fmt.Sprintf("its image was not decoded: %dx%d pixels take about %v here, and %v are left: %s",
			h.Width, h.Height, takes.Std().Round(time.Millisecond), max(left.Std(), 0).Round(time.Millisecond), smallerOrLater)}
}

// smallerOrLater is what to do about images that take too long.
const smallerOrLater = "send a smaller one, or a longer timeout"

func imagesFull(m *model) *Error {
	return &Error{Kind: ErrOverloaded, Reason: wire.ReasonFull, Model: m.entry.Spec.Name, Msg: "too many images wait for preprocessing"}
}

// imageLoop preprocesses images until the client closes; with a nil photos, small ones
// alone.
func (c *Client) imageLoop(photos chan imageJob) {
	defer c.loops.Done()
	for {
		var j imageJob
		select {
		case j = <-c.images:
		case j = <-photos:
		case <-c.stop:
			return
		}
		c.preprocess(&j)
		c.waiting.Add(-int64(len(j.image)))
	}
}

// preprocess writes the image's tensor and submits the call, unless it has been
// answered meanwhile, or cannot be in time.
func (c *Client) preprocess(j *imageJob) {
	c.mu.Lock()
	_, open := c.table.Find(j.id)
	c.mu.Unlock()
	if !open {
		return
	}
	if j.deadline <= mono.Now() { // while it waited
		c.fail(j.id, wire.ReasonExpired)
		return
	}
	needs := j.model.plan.Bytes(j.header)
	err := c.inTime(j.model, &j.header, j.deadline)
	if err == nil && !c.memory.take(needs, j.deadline.Add(-c.times.of(&j.header)), c.stop) {
		err = &Error{Kind: ErrOverloaded, Reason: wire.ReasonFull, Model: j.model.entry.Spec.Name, Msg: "the memory for decoding images is taken (frontend.image_memory)"}
	}
	if err != nil {
		c.failWith(j.id, err)
		return
	}
	from := mono.Now()
	slab, tensor, err := c.decode(j)
	c.memory.done(needs)
	if err != nil {
		c.failWith(j.id, err)
		return
	}
	c.times.took(&j.header, mono.Now().Sub(from))
	g, ok := j.model.metrics.doubts.grade(j.source, tensor)
	if !ok {
		c.arena.Free(slab)
		c.fail(j.id, wire.ReasonIsolated)
		return
	}
	if k, open := c.attach(j, slab, from, g); open {
		c.submit(j.id, &k, tensor)
		c.sent(j.id, &k)
	}
}

// decode takes a slab and writes the image's tensor to it.
func (c *Client) decode(j *imageJob) (wire.SlabHandle, []byte, *Error) {
	slab, tensor, err := c.alloc(j.model, j.model.plan.Size())
	if err != nil {
		return 0, nil, err
	}
	if err := j.model.plan.Into(tensor, j.image); err != nil {
		c.arena.Free(slab)
		return 0, nil, badInput(j.model.entry.Spec.Name, "%v", err)
	}
	return slab, tensor, nil
}

// attach gives the slab to the call; if that has been answered meanwhile, to
// nobody.
func (c *Client) attach(j *imageJob, slab wire.SlabHandle, from mono.Time, g graded) (call, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot, open := c.table.Find(j.id)
	if !open {
		c.arena.Free(slab)
		g.leave()
		return call{}, false
	}
	k := &c.open[slot]
	k.graded = g
	k.slab, k.submitted = slab, mono.Now()
	k.preprocess = k.submitted.Sub(from)
	if g := k.model.uplink.group; g.only == nil {
		g.place(j.id, k)
	}
	return *k, true
}

// sayDecoding puts it in words when a call ran out of time for its image's sake.
func (k *call) sayDecoding(err *Error) {
	switch {
	case k.width == 0 || err.Reason != wire.ReasonExpired && err.Reason != wire.ReasonDeadline:
	case k.submitted == 0:
		err.Msg = fmt.Sprintf("its image of %dx%d pixels was not decoded in time: %s", k.width, k.height, smallerOrLater)
	case k.preprocess > k.deadline.Sub(k.arrival)/4:
		err.Msg += fmt.Sprintf("; decoding its image of %dx%d pixels took %v of %v: %s", k.width, k.height,
			k.preprocess.Std().Round(100*time.Microsecond), k.deadline.Sub(k.arrival), smallerOrLater)
	}
}
