package engine

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// op says what an input asks of a model loop's core.
type op uint8

const (
	opWake op = iota
	opSubmit
	opGranted
	opCompleted
	opLost
	opSetGPUs
	opAddModel
	opRemoveModel
	opSetProfile
	opSetDelay
	opSetMargin
	opDropAll
)

// input is one event of a model loop: plain values, so that a log of inputs is
// a replayable run.
type input struct {
	op      op
	model   wire.ModelID
	request batching.Request   // opSubmit
	grant   rank.Grant         // opGranted; GPU and Life of opLost
	done    Done               // opCompleted
	gpus    int                // opSetGPUs
	share   batching.Share     // opSetGPUs
	delay   batching.Delay     // opSetDelay
	margin  mono.Dur           // opSetMargin
	reason  wire.Reason        // opRemoveModel, opDropAll
	profile *profile.Profile   // opSetProfile; immutable
	config  *shard.ModelConfig // opAddModel; read once
}

// apply hands the input to the core. It is the one place where loop and replay
// meet: both call it with the same values.
func (in *input) apply(now mono.Time, s *shard.Shard, out *shard.Out) (run shard.Run, completed bool) {
	switch in.op {
	case opWake:
		s.Wake(now, out)
	case opSubmit:
		s.Submit(now, in.model, in.request, out)
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
	case opSetProfile:
		s.SetProfile(now, in.model, in.profile, out)
	case opSetDelay:
		s.SetDelay(now, in.delay, out)
	case opSetMargin:
		s.SetMargin(in.model, in.margin)
	case opDropAll:
		s.DropAll(now, in.reason, out)
	}
	return shard.Run{}, false
}

// rankOp says what an event asks of the rank's core.
type rankOp uint8

const (
	rankMail rankOp = iota // a model's mailbox has something
	rankDone
	rankAdd
	rankRemove
)

// rankInput is one event of the rank loop.
type rankInput struct {
	op    rankOp
	model wire.ModelID
	gpu   GPU
	batch wire.BatchID
	at    mono.Time // free at, end
	mail  mail      // filled in by the rank loop from the mailbox
}

// apply hands the event to the core; loop and replay both call it.
func (in *rankInput) apply(r *rank.Rank) {
	switch in.op {
	case rankMail:
		if in.mail.answered {
			r.Answer(in.mail.answer)
		}
		if in.mail.informed {
			r.SetCandidate(in.model, in.mail.candidate)
		}
	case rankDone:
		r.Done(in.gpu.ID, in.gpu.Life, in.batch, in.at)
	case rankAdd:
		r.AddGPU(in.gpu.ID, in.at)
	case rankRemove:
		r.RemoveGPU(in.gpu.ID)
	}
}
