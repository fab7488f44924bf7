package transporttest

import (
	"bytes"
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Recorder is a Handler that keeps what it got.
type Recorder struct {
	mu        sync.Mutex // Guards what follows.
	onReceive func(l transport.Link, f transport.Frame)
	onBuffer  func(kind wire.Kind, n int) []byte
	link      transport.Link
	frames    []transport.Frame // copies
	closed    int
	err       error
	late      int // calls after Closed
}

// NewRecorder makes one.
func NewRecorder() *Recorder { return &Recorder{} }

// OnReceive runs fn inside Receive, first.
func (r *Recorder) OnReceive(fn func(l transport.Link, f transport.Frame)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onReceive = fn
}

// OnBuffer runs fn as Buffer.
func (r *Recorder) OnBuffer(fn func(kind wire.Kind, n int) []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onBuffer = fn
}

// Receive keeps a copy.
func (r *Recorder) Receive(l transport.Link, f transport.Frame) {
	r.mu.Lock()
	fn := r.onReceive
	r.mu.Unlock()
	if fn != nil {
		fn(l, f)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed > 0 {
		r.late++
	}
	r.link = l
	f.Body, f.Payload = bytes.Clone(f.Body), bytes.Clone(f.Payload)
	r.frames = append(r.frames, f)
}

// Buffer asks OnBuffer.
func (r *Recorder) Buffer(_ transport.Link, kind wire.Kind, _ []byte, n int) []byte {
	r.mu.Lock()
	fn := r.onBuffer
	r.mu.Unlock()
	if fn == nil {
		return nil
	}
	return fn(kind, n)
}

// Closed counts.
func (r *Recorder) Closed(_ transport.Link, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
	r.err = err
}

// Link is the link of the latest frame.
func (r *Recorder) Link() transport.Link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.link
}

// Count is the number of frames so far.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.frames)
}

// Frames is what came so far.
func (r *Recorder) Frames() []transport.Frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.frames[:len(r.frames):len(r.frames)]
}

// AwaitClosed waits for Closed and checks that it came once, last and with a
// reason.
func (r *Recorder) AwaitClosed(t *testing.T) error {
	t.Helper()
	Until(t, "Closed", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.closed > 0
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != 1 || r.late != 0 || r.err == nil {
		t.Errorf("Closed came %d times, %d frames after it, reason %v", r.closed, r.late, r.err)
	}
	return r.err
}

// answer is a small numbered frame, and number reads it back.
func answer(n uint64) []byte { return (&wire.Answer{Request: wire.RequestID(n)}).Append(nil) }

func number(t *testing.T, f transport.Frame) uint64 {
	t.Helper()
	var m wire.Answer
	if f.Kind != wire.KindAnswer {
		t.Fatalf("frame of kind %d", f.Kind)
	}
	if err := m.Decode(f.Body); err != nil {
		t.Fatal(err)
	}
	return uint64(m.Request)
}
