package backend

import (
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/outbound"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// checkOutputs says why a model's outputs could not be sent: one that is larger than any answer, or a whole batch
// of them that is larger than what may wait for links.
func (b *Backend) checkOutputs(m *catalog.ModelSpec) error {
	one, batch := int64(size(m.Outputs)), int64(size(m.Outputs))*int64(max(1, m.MaxBatch))
	if one > wire.OutputMax {
		return fmt.Errorf("its outputs take %s for one request, at most %s can be sent: give it outputs of a smaller shape or data type", inMiB(one), inMiB(wire.OutputMax))
	}
	switch most := b.outputs.Max(); {
	case one > most:
		return fmt.Errorf("its outputs take %s for one request, and at most %s may wait to be sent (backend.outputs_max): raise that, or give it outputs of a smaller shape or data type",
			inMiB(one), inMiB(most))
	case batch > most:
		return fmt.Errorf("its outputs take %s for one request, and %s for a batch of %d, and at most %s may wait to be sent (backend.outputs_max): raise that, or give the model a max_batch of %d or less",
			inMiB(one), inMiB(batch), m.MaxBatch, inMiB(most), most/one)
	}
	return nil
}

// losses writes into the log that outputs were given up: the first at once, then at most one line per faultEvery.
type losses struct {
	log zerolog.Logger // Immutable.

	mu   sync.Mutex // Guards what follows.
	at   mono.Time
	more int // since the last line
}

// say logs an output that was given up, or counts it for the next line.
func (s *losses) say(p *pool, o *outbound.Output, c outbound.Cause) {
	now := mono.Now()
	s.mu.Lock()
	s.more++
	due := s.at == 0 || now.Sub(s.at) >= faultEvery
	n := s.more
	if due {
		s.at, s.more = now, 0
	}
	s.mu.Unlock()
	if !due {
		return
	}
	line := s.log.Warn().Str("pool", p.doc.DeviceType).Str("cause", c.String()).Int("outputs", n).Int("bytes", len(o.Data)).Uint64("batch", uint64(o.Head.Batch))
	if spec := p.spec(o.Model); spec != nil {
		line = line.Str("model", spec.Key())
	}
	line.Msg(lossText(c))
}

func lossText(c outbound.Cause) string {
	switch c {
	case outbound.CauseExpired:
		return "outputs were given up: their deadlines passed while they waited for the link to their frontend; give the model a longer slo, smaller outputs, or a faster network"
	case outbound.CauseMany:
		return "outputs were given up: too many wait for the link to their frontend"
	}
	return "outputs were given up: the link to their frontend ended while they waited"
}
