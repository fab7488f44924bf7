package frontend

import (
	"context"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// imagesMax bounds the images that wait; their deadlines bound how long.
const imagesMax = 1024

// imageJob is an image that waits to be preprocessed.
type imageJob struct {
	ctx   context.Context
	image []byte
	call  call
}

// queueImage hands the image to the preprocessing goroutines; when all are busy
// and the queue is full, the request is refused.
func (c *Client) queueImage(ctx context.Context, image []byte, k call) {
	select {
	case c.images <- imageJob{ctx, image, k}:
	default:
		name := k.model.entry.Spec.Name
		c.refuse(k.model, name, &Error{Kind: ErrOverloaded, Reason: wire.ReasonFull, Model: name, Msg: "too many images wait for preprocessing"}, k.done)
	}
}

// imageLoop preprocesses images until the client closes, and answers what is
// left then.
func (c *Client) imageLoop() {
	defer c.loops.Done()
	for {
		select {
		case j := <-c.images:
			c.preprocess(&j)
		case <-c.stop:
			for {
				select {
				case j := <-c.images:
					c.refuse(j.call.model, j.call.model.entry.Spec.Name, reasonError("", wire.ReasonDraining), j.call.done)
				default:
					return
				}
			}
		}
	}
}

func (c *Client) preprocess(j *imageJob) {
	k := &j.call
	name, from := k.model.entry.Spec.Name, mono.Now()
	if from >= k.deadline {
		c.refuse(k.model, name, reasonError(name, wire.ReasonExpired), k.done)
		return
	}
	slab, bytes, err := c.alloc(k.model, k.model.plan.Size())
	if err != nil {
		c.refuse(k.model, name, err, k.done)
		return
	}
	if err := k.model.plan.Into(bytes, j.image); err != nil {
		c.arena.Free(slab)
		c.refuse(k.model, name, badInput(name, "%v", err), k.done)
		return
	}
	k.slab, k.preprocess = slab, mono.Now().Sub(from)
	c.submit(j.ctx, *k, uint32(len(bytes)))
}
