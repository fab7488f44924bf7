package engine

import "github.com/symphony-serving/symphony/transport/wire"

// Fence is passed when a model's end here, by RemoveModel or HandOver, has been carried out, and
// all batches of it that began before have been handed to the Sink and flushed. A GPU may lose
// the model then: none comes any more. A model loop that stands still passes none.
type Fence struct {
	loop *modelLoop
	at   uint64
}

// Fence is the one behind all that has been ordered of a model until now.
func (e *Engine) Fence(id wire.ModelID) Fence {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.loopOf(id)
	return Fence{l, l.endsAsked}
}

// Passed reports whether it is passed; so are all of an engine that has stopped.
func (f Fence) Passed() bool {
	return f.loop.endsFlushed.Load() >= f.at || f.loop.engine.door.engine.Load() == nil
}

// flushedLoop tells of the ends of models that the turn has carried out: after the Flush.
func (l *modelLoop) flushedLoop() {
	if l.ends != l.endsTold {
		l.endsTold = l.ends
		l.endsFlushed.Store(l.ends)
	}
}
