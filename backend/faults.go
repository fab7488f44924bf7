package backend

import (
	"strconv"
	"sync"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// faultEvery is the least time between two lines about the same fault: a device that
// fails each batch must not fill a disk.
const faultEvery = 5 * mono.Second

// faults writes why requests failed into the log: of each kind the first at once, then
// at most one per faultEvery, with the number of those that were kept back. (Which
// requests failed is told by their answers, how many by the counter.)
type faults struct {
	log zerolog.Logger // Immutable.

	mu   sync.Mutex // Guards what follows.
	said map[fault]*told
}

// takeLogs makes all that report failures write to the backend's log, ONNX Runtime included.
func (b *Backend) takeLogs() {
	b.faults.log, b.losses.log = b.log, b.log
	onnx.LogTo(b.log)
}

// fault is a kind of failure. There are no more of them than devices, models and
// causes allow: what peers send makes no new ones.
type fault struct {
	pool   *pool
	device int
	model  int // -1: none of the pool's
	cause  executor.Cause
}

// told is what was said of a fault.
type told struct {
	at       mono.Time // last
	requests int       // that failed since, unsaid
	orders   int       // likewise
}

// say tells of a failure, or counts it for the next line.
func (s *faults) say(p *pool, device int, f *executor.Failure) {
	requests, orders, due := s.due(p, device, f, mono.Now())
	if !due {
		return
	}
	o := f.Order
	line := s.log.Error().Str("pool", p.doc.DeviceType).Int("device", device).Uint32("gpu", uint32(o.GPU)).
		Uint64("batch", uint64(o.Batch.Batch)).Int("requests", f.Requests).Str("cause", f.Cause.String())
	if spec := p.spec(o.ModelIndex); spec != nil {
		line = line.Str("model", spec.Key())
	} else {
		line = line.Uint32("model_id", uint32(o.Model))
	}
	if f.First != nil {
		line = line.Str("request", requestOf(f.First))
	}
	if f.Err != nil {
		line = line.Err(f.Err)
	}
	if f.Want != 0 {
		line = line.Int("got", f.Got).Int("want", f.Want)
	}
	if orders > 0 {
		line = line.Int("more_batches", orders).Int("more_requests", requests)
	}
	line.Msg(faultText(f.Cause))
}

// faultText is what a cause means to who runs the backend. The numbers are beside it.
func faultText(c executor.Cause) string {
	switch c {
	case executor.CauseModel:
		return "a batch was refused: the scheduler ordered a model that this pool does not serve"
	case executor.CauseBatch:
		return "a batch was refused: it is larger than the model's max_batch here; give all backends the same model configuration"
	case executor.CauseInput:
		return "inputs were refused: their size is not the model's here; give all backends the same model configuration"
	case executor.CauseFull:
		return "a batch was refused: too many wait at the device already"
	case executor.CauseIsolated:
		return "requests were refused: requests like them have made batches fail, and no time was left to run them apart"
	}
	if c == executor.CauseUnsent {
		return "requests were answered without their outputs: too many bytes of outputs wait for links; raise backend.outputs_max, or find out which frontend or network is slow"
	}
	return "requests failed on their device, alone or with their batch"
}

// requestOf is a request's id as its answer has it, and as symphony explain takes it.
func requestOf(it *wire.BatchItem) string {
	return strconv.FormatUint(uint64(it.Frontend), 10) + "-" + strconv.FormatUint(uint64(it.Request), 16)
}

// due reports whether a line may be written now, and what came since the last one.
func (s *faults) due(p *pool, device int, f *executor.Failure, now mono.Time) (requests, orders int, ok bool) {
	key := fault{p, device, f.Order.ModelIndex, f.Cause}
	if p.spec(key.model) == nil {
		key.model = -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.said[key]
	if t == nil {
		if s.said == nil {
			s.said = map[fault]*told{}
		}
		s.said[key] = &told{at: now}
		return 0, 0, true
	}
	if now.Sub(t.at) < faultEvery {
		t.requests += f.Requests
		t.orders++
		return 0, 0, false
	}
	requests, orders = t.requests, t.orders
	*t = told{at: now}
	return requests, orders, true
}
