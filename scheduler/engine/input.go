package engine

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
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
)

// rankEvent is one event of the rank loop.
type rankEvent struct {
	op     rankOp
	model  wire.ModelID
	box    *mailbox // rankMail
	gpu    GPU
	batch  wire.BatchID
	at     mono.Time // free at, end
	effort *wishBox  // rankWish, rankFilled
	told   mono.Time // rankDone: when the report came to the engine

	byLatest, room bool // rankSetting
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
	case rankRemove:
		r.RemoveGPU(e.gpu.ID)
	}
}
