package ingress

import (
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Outcome is what is told of a request's answers once they are given back: of a batch's items the
// longest times, and the least slack, which is negative when late.
type Outcome struct {
	request    wire.RequestID // of the first item
	version    string
	batchSize  int // 0: there is no answer
	gpu        int
	preprocess time.Duration
	queue      time.Duration
	fetch      time.Duration
	execute    time.Duration
	reply      time.Duration
	total      time.Duration
	slack      time.Duration
	cold       bool // some item's batch waited for the model's weights

	// Of the item that took longest.
	items   int
	slowest wire.RequestID
	epoch   wire.Epoch
	batch   wire.BatchID
	times   frontend.Times
}

// Take reads the answers, of which there is one for each item.
func (o *Outcome) Take(answers []*frontend.Response) {
	a := answers[0]
	*o = Outcome{request: a.Request, version: a.Version, batchSize: a.BatchSize, gpu: a.GPU, preprocess: a.Preprocess, queue: a.Queue, fetch: a.Fetch,
		execute: a.Execute, reply: a.Reply, total: a.Total, slack: a.Slack, cold: a.Cold, items: len(answers), slowest: a.Request, epoch: a.Epoch, batch: a.Batch, times: a.Times}
	for _, a := range answers[1:] {
		if a.Total > o.total {
			o.slowest, o.epoch, o.batch, o.times = a.Request, a.Epoch, a.Batch, a.Times
		}
		o.preprocess, o.queue, o.fetch = max(o.preprocess, a.Preprocess), max(o.queue, a.Queue), max(o.fetch, a.Fetch)
		o.execute, o.reply, o.total = max(o.execute, a.Execute), max(o.reply, a.Reply), max(o.total, a.Total)
		o.slack, o.batchSize = min(o.slack, a.Slack), max(o.batchSize, a.BatchSize)
		o.cold = o.cold || a.Cold
	}
}

// IDs are what symphony explain takes of a request's items, in their order, with commas between.
func IDs(answers []*frontend.Response) string {
	id := ""
	for i, a := range answers {
		if i > 0 {
			id += ","
		}
		id += a.ID()
	}
	return id
}

// DetailsParameter is the reply's with the IDs, for who asks for parameters.details.
const DetailsParameter = "request"

// AppendTimes tells the client where the time went, in microseconds, and whether it was a cold start.
func (o *Outcome) AppendTimes(dst []oip.Parameter) []oip.Parameter {
	if o.cold {
		dst = append(dst, oip.Parameter{Name: "cold", Yes: true})
	}
	return append(dst,
		oip.Parameter{Name: "queue_us", Value: o.queue.Microseconds()},
		oip.Parameter{Name: "fetch_us", Value: o.fetch.Microseconds()},
		oip.Parameter{Name: "execute_us", Value: o.execute.Microseconds()},
		oip.Parameter{Name: "reply_us", Value: o.reply.Microseconds()},
		oip.Parameter{Name: "total_us", Value: o.total.Microseconds()},
		oip.Parameter{Name: "slack_us", Value: o.slack.Microseconds()},
		oip.Parameter{Name: "batch_size", Value: int64(o.batchSize)},
		oip.Parameter{Name: "gpu", Value: int64(o.gpu)})
}
