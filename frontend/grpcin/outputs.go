package grpcin

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Outputs that are large are counted with the ingress's (ingress.Server.Hold): the outputs themselves, and the reply that
// is made of them until grpc-go has sent it.

// replyMost is the most bytes of outputs in a reply: protocol buffers and gRPC's clients have messages of 2 GiB - 1.
const replyMost = math.MaxInt32 - 1<<20

// hold takes room for a request's outputs and its reply. An error is the answer: no message takes them, or there is no
// room.
func (s *Server) hold(q *request, spec *catalog.ModelSpec, items int) (held int64, err error) {
	reply := int64(0)
	for i := range q.wanted {
		if w := &q.wanted[i]; w.region == nil && w.classes == 0 {
			reply += w.spec.ByteSize() * int64(items)
		}
	}
	if reply > replyMost {
		return 0, oip.Errorf("", "the reply would have %d bytes of outputs, and a gRPC message has at most %d: ask for fewer items, for fewer outputs, or over HTTP", reply, replyMost)
	}
	return s.cfg.Web.Hold(spec, ingress.OutputBytes(spec, items)+reply)
}

// heldPool is the pool of a reply whose bytes are counted until they are sent, or the reply is garbage (of a connection that was
// cut).
type heldPool struct {
	mem.BufferPool
	out *heldOut
}

// heldOut counts out, once.
type heldOut struct {
	web  *ingress.Server
	n    int64
	over atomic.Bool
}

func (o *heldOut) end() {
	if o.over.CompareAndSwap(false, true) {
		o.web.Unhold(o.n)
	}
}

// Put implements mem.BufferPool.
func (p *heldPool) Put(b *[]byte) {
	p.BufferPool.Put(b)
	p.out.end()
}

// keep counts a reply until it is sent. Its client's connection is cut where it is not taken for BodyTime and most of the room is
// taken.
func (s *Server) keep(r *reply, held int64, c *conn) {
	out := &heldOut{web: s.cfg.Web, n: held}
	p := &heldPool{r.pool, out}
	runtime.AddCleanup(p, (*heldOut).end, out)
	r.pool = p
	if c != nil {
		s.watchReply(out, c)
	}
}

func (s *Server) watchReply(out *heldOut, c *conn) {
	time.AfterFunc(s.cfg.BodyTime, func() {
		switch {
		case out.over.Load():
		case s.cfg.Web.Crowded():
			s.metrics.cut.Inc()
			c.Close()
		default:
			s.watchReply(out, c)
		}
	})
}
