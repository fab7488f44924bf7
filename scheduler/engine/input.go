package engine

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// op says what an input asks of a model loop's core.
type op uint8

const (
	opWake op = iota
	opSettle
	opGranted
	opCompleted
	opLost
	opSetGPUs
	opAddModel
	opRemoveModel
	opSetModel
	opSetDelay
	opSetMargin
	opDropAll
	opSetSetting
	opHasten
	opHandOver
	opFill
	opSetFloor
)

// Submission is a request on its way to its model's loop. It has a ring of its
// own: requests are most of what comes, and a cell of a size for everything would
// cost each of them four times the memory traffic.
type Submission struct {
	Model   wire.ModelID
	Cancel  bool      // nobody waits for Request any more (Engine.Cancel): behind it in the same ring
	Came    mono.Time // when it was handed in
	Request batching.Request
}

// apply hands the request to the core; like input.apply it is where loop and
// replay meet. An opSettle follows before anything else does.
func (in *Submission) apply(now mono.Time, s *shard.Shard, out *shard.Out) {
	if in.Cancel {
		s.Cancel(in.Came, in.Model, &in.Request, out)
		return
	}
	s.Enqueue(now, in.Came, in.Model, &in.Request, out)
}

// input is any other event of a model loop: plain values, so that a log of
// inputs is a replayable run.
type input struct {
	op      op
	model   wire.ModelID
	grant   rank.Grant         // opGranted; GPU and Life of opLost; opFill (fillOf)
	done    Done               // opCompleted
	gpus    int                // opSetGPUs
	share   batching.Share     // opSetGPUs
	delay   batching.Delay     // opSetDelay
	margin  mono.Dur           // opSetMargin
	setting batching.Setting   // opSetSetting
	reason  wire.Reason        // opRemoveModel, opDropAll
	config  *shard.ModelConfig // opAddModel, opSetModel; read once
	to      *door              // opHandOver; the core does not see it
	weights *residency.Model   // opAddModel of a paged engine, likewise
	floor   mono.Time          // opSetFloor
}

// apply hands the input to the core: loop and replay both call it with the same
// values.
func (in *input) apply(now mono.Time, s *shard.Shard, out *shard.Out) (run shard.Run, completed bool) {
	switch in.op {
	case opWake:
		s.Wake(now, out)
	case opSettle:
		s.Settle(now, out)
	case opGranted:
		s.Granted(now, in.grant, out)
	case opCompleted:
		if in.done.Refused != wire.ReasonNone {
			return s.Refused(now, in.done.Batch, in.done.Refused, out)
		}
		return s.Completed(in.done.Batch)
	case opLost:
		s.Lost(now, in.grant.GPU, in.grant.Life, out)
	case opSetGPUs:
		s.SetGPUs(now, in.gpus, in.share, out)
	case opAddModel:
		s.AddModel(in.model, *in.config)
	case opRemoveModel:
		s.RemoveModel(in.model, in.reason, out)
	case opSetModel:
		s.SetModel(now, in.model, in.config.Config, out)
	case opSetDelay:
		s.SetDelay(now, in.delay, out)
	case opSetMargin:
		s.SetMargin(in.model, in.margin)
	case opSetSetting:
		s.SetSetting(now, in.setting, out)
	case opHasten:
		s.Hasten(now, out)
	case opSetFloor:
		s.SetFloor(now, in.model, in.floor, out)
	case opHandOver:
		s.Extract(in.model, out)
	case opDropAll:
		s.DropAll(now, in.reason, out)
	case opFill:
		s.Fill(now, fillOf(&in.grant), out)
	}
	return shard.Run{}, false
}

// rankOp says what an event asks of the rank's core.
type rankOp uint8

const (
	rankMail   rankOp = iota // a model's mailbox has something
	rankReturn               // the answer of a model that is gone: the GPU is unused
	rankGone                 // nothing more comes from a model
	rankDone
	rankAdd
	rankRemove
	rankSetting
	rankWish   // a model's wishBox has something
	rankFilled // the answer to an opFill
	rankModel  // a paged engine serves a model from then on
	rankLoaded // a loader's report, likewise
	rankLook   // somebody looks at a paged engine's memory; nothing of the core changes
)

// rankEvent is one event of the rank loop.
type rankEvent struct {
	op     rankOp
	model  wire.ModelID
	box    *mailbox // rankMail, rankModel
	gpu    GPU
	batch  wire.BatchID
	at     mono.Time // free at, end
	effort *wishBox  // rankWish, rankFilled
	told   mono.Time // rankDone: when the report came to the engine

	byLatest, room, cheap bool         // rankSetting
	generation            uint32       // rankReturn: the grant's; rankLoaded: of the weights
	refused, cold         bool         // rankDone: it did not run; for the weights were not there
	paging                *pagingEvent // of paged engines: rankAdd, rankModel, rankLoaded
}

// apply hands the event to the core, m with it if it is a rankMail; loop and
// replay both call it.
func (e *rankEvent) apply(r *rank.Rank, m *mail) {
	switch e.op {
	case rankMail:
		if m.answered {
			r.Answer(m.answer)
		}
		r.SetCandidate(e.model, m.candidate)
	case rankReturn:
		r.Answer(rank.Answer{Grant: rank.Grant{Model: e.model, GPU: e.gpu.ID, Life: e.gpu.Life}})
	case rankGone:
		r.RemoveModel(e.model)
	case rankDone:
		r.Done(e.gpu.ID, e.gpu.Life, e.batch, e.at)
	case rankAdd:
		r.AddGPU(e.gpu.ID, e.at)
	case rankSetting:
		r.SetByLatest(e.byLatest)
		r.SetRoom(e.room)
		r.SetCheap(e.cheap)
	case rankRemove:
		r.RemoveGPU(e.gpu.ID)
	}
}

// applyPaged is apply in a paged engine, w with m.
func (e *rankEvent) applyPaged(now mono.Time, p *paged.Paged, m *mail, w *wants, out *paged.Out) {
	switch e.op {
	case rankMail:
		e.applyMail(now, p, m, w)
	case rankReturn:
		p.Answer(now, rank.Answer{Grant: rank.Grant{Model: e.model, GPU: e.gpu.ID, Life: e.gpu.Life, Generation: e.generation}}, 0)
	case rankGone:
		p.RemoveModel(now, e.model, out)
	case rankDone:
		if e.refused {
			p.Refused(now, e.gpu.ID, e.gpu.Life, e.batch, e.at, e.cold, out)
		} else {
			p.Done(now, e.gpu.ID, e.gpu.Life, e.batch, e.at)
		}
	case rankAdd:
		forgetUnloads(out, e.gpu.ID)
		p.Adopt(now, e.gpu.ID, e.at, e.paging.pages, e.paging.held, out)
	case rankSetting:
		p.SetByLatest(e.byLatest)
	case rankRemove:
		forgetUnloads(out, e.gpu.ID)
		p.RemoveGPU(now, e.gpu.ID, out)
	case rankModel:
		p.AddModel(e.model, e.paging.weights)
	case rankLoaded:
		e.applyLoaded(now, p, out)
	}
}

// forgetUnloads drops the orders to a GPU whose life ends, of the same turn: they must not reach the next one.
func forgetUnloads(out *paged.Out, gpu wire.GPUID) {
	out.Unloads = slices.DeleteFunc(out.Unloads, func(u residency.Unload) bool { return u.GPU == gpu })
}

// applyLoaded takes a report, of a load that is under way here or of one that nobody here knows of, whose weights would keep pages
// for good.
func (e *rankEvent) applyLoaded(now mono.Time, p *paged.Paged, out *paged.Out) {
	r, gen := p.Residency(), residency.Generation(e.generation)
	if model, gpu, ordered, ok := r.Underway(e.paging.report.ID); ok && model == e.model && gpu == e.gpu.ID && ordered == gen {
		p.Loaded(now, e.paging.report, out)
		return
	}
	if !e.paging.report.OK {
		return
	}
	if _, all := r.Pages(e.gpu.ID); all == 0 {
		return // it is not there: its next life begins with them (AddPagedGPU)
	}
	if !r.Has(e.model, e.gpu.ID, gen) {
		out.Unloads = append(out.Unloads, residency.Unload{Model: e.model, GPU: e.gpu.ID, Generation: gen})
	}
}

// applyMail hands over what a model tells: first who came, of which some may have left since or be in the batch.
func (e *rankEvent) applyMail(now mono.Time, p *paged.Paged, m *mail, w *wants) {
	work := p.Residency().Weigh(w.alone, w.latest.Add(w.alone).Sub(now))
	for range w.came {
		p.Arrive(now, e.model, work, w.latest)
	}
	if w.left > 0 {
		p.Doomed(now, e.model, int(w.left))
	}
	if m.answered {
		p.Answer(now, m.answer, int(w.size))
	}
	p.SetCandidate(now, e.model, m.candidate)
}
