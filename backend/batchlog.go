package backend

import (
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/executor"
)

// observer sees what a device's executor does: metrics, and, with Config.LogBatches, a line in the log for
// each batch that begins and ends. With these lines and those of promises
// (reigns.promise) the log shows who drove each device at any time.
func (b *Backend) observer(pool, device int) executor.Observer {
	o := b.metrics.observer(pool, device)
	if !b.cfg.LogBatches {
		return o
	}
	log := b.log.With().Int("pool", pool).Int("device", device).Logger()
	o.Begins = func(in *executor.Order) { batchLine(&log, in, "batch begins") }
	o.Ends = func(in *executor.Order) { batchLine(&log, in, "batch ends") }
	return o
}

func batchLine(log *zerolog.Logger, o *executor.Order, text string) {
	log.Debug().Uint64("reign", uint64(o.Epoch)).Uint64("batch", uint64(o.Batch.Batch)).Int("requests", len(o.Items)).Msg(text)
}
