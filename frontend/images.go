package frontend

import (
	"bytes"
	"context"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Limits of what waits for preprocessing.
const (
	imagesMax     = 1024
	imageBytesMax = 256 << 20
)

// imageJob is an image that waits to be preprocessed. Its call is open in the
// table already: a queue that is too long, a context that ends, or a client
// that closes answers it in time, and then the job is only thrown away.
type imageJob struct {
	id    wire.RequestID
	model *model
	image []byte // a copy: the caller's may change once the call is answered
}

// queueImage opens the call and hands the image to the preprocessing
// goroutines; when too much waits there, the request is refused.
func (c *Client) queueImage(ctx context.Context, image []byte, k *call) {
	size := int64(len(image))
	if c.waiting.Add(size) > imageBytesMax {
		c.waiting.Add(-size)
		c.refuse(k.model, k.model.entry.Spec.Name, imagesFull(k.model), k.done)
		return
	}
	id, ok := c.register(ctx, k)
	if !ok {
		c.waiting.Add(-size)
		return
	}
	select {
	case c.images <- imageJob{id, k.model, bytes.Clone(image)}:
		if c.admitted.Load() == nil { // the link went; perhaps after it had answered all open calls
			c.fail(id, wire.ReasonUnavailable)
		}
	default:
		c.waiting.Add(-size)
		c.failWith(id, imagesFull(k.model))
	}
}

func imagesFull(m *model) *Error {
	return &Error{Kind: ErrOverloaded, Reason: wire.ReasonFull, Model: m.entry.Spec.Name, Msg: "too many images wait for preprocessing"}
}

// imageLoop preprocesses images until the client closes.
func (c *Client) imageLoop() {
	defer c.loops.Done()
	for {
		select {
		case j := <-c.images:
			c.preprocess(&j)
			c.waiting.Add(-int64(len(j.image)))
		case <-c.stop:
			return
		}
	}
}

// preprocess writes the image's tensor and submits the call, unless it has been
// answered meanwhile.
func (c *Client) preprocess(j *imageJob) {
	c.mu.Lock()
	_, open := c.table.Find(j.id)
	c.mu.Unlock()
	if !open {
		return
	}
	from := mono.Now()
	slab, tensor, err := c.alloc(j.model, j.model.plan.Size())
	if err != nil {
		c.failWith(j.id, err)
		return
	}
	if err := j.model.plan.Into(tensor, j.image); err != nil {
		c.arena.Free(slab)
		c.failWith(j.id, badInput(j.model.entry.Spec.Name, "%v", err))
		return
	}
	if k, open := c.attach(j.id, slab, from); open {
		c.submit(j.id, &k, tensor)
	}
}

// attach gives the slab to the call; if that has been answered meanwhile, to
// nobody.
func (c *Client) attach(id wire.RequestID, slab wire.SlabHandle, from mono.Time) (call, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot, open := c.table.Find(id)
	if !open {
		c.arena.Free(slab)
		return call{}, false
	}
	k := &c.open[slot]
	k.slab, k.submitted = slab, mono.Now()
	k.preprocess = k.submitted.Sub(from)
	return *k, true
}
