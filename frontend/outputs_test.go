package frontend

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const largeSize = 1 << 20

// largeCluster has a model "large" whose output has largeSize bytes.
func largeCluster(t *testing.T) *cluster {
	c := newCluster(t)
	m := c.doc.Entries[1]
	m.ID, m.Spec.Name, m.Spec.Outputs, m.Spec.SLO = 4, "large", []catalog.TensorSpec{{Name: "x", Type: catalog.Uint8, Shape: []int64{largeSize}}}, 10*mono.Second
	c.doc.Entries = append(c.doc.Entries, m)
	return c
}

func large(b byte) Request {
	q := echo(b)
	q.Model = "large"
	return q
}

func outputOf(id wire.RequestID) []byte {
	b := make([]byte, largeSize)
	for i := range b {
		b[i] = byte(id) ^ byte(i)*13 ^ byte(i>>8)
	}
	return b
}

// sendPart sends bytes from to to of a request's output.
func sendPart(data transport.Link, m wire.Output, b []byte, from, to int) {
	m.Offset, m.Total, m.Start = uint32(from), uint32(len(b)), mono.Now()
	part := bytes.Clone(b[from:to])
	for errors.Is(data.SendPayload(m.Append(nil, len(part)), part, nil), transport.ErrFull) {
		time.Sleep(time.Millisecond)
	}
}

// Outputs come in parts of any size, those of many requests among one another, some twice: each request has its own.
func TestOutputsInParts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	c := largeCluster(t)
	const requests = 12
	var mu sync.Mutex
	var submits []wire.Submit
	c.onSubmit = func(_ *cluster, _, data transport.Link, s wire.Submit) {
		mu.Lock()
		defer mu.Unlock()
		if submits = append(submits, s); len(submits) < requests {
			return
		}
		all := append([]wire.Submit{}, submits...)
		go func() {
			r := rand.New(rand.NewPCG(seed, 0))
			type stream struct {
				m    wire.Output
				b    []byte
				next int
			}
			var streams []*stream
			for i, s := range all {
				streams = append(streams, &stream{wire.Output{Request: s.Request, Epoch: 1, Batch: wire.BatchID(i)}, outputOf(s.Request), 0})
				if i%3 == 0 { // a batch that is run again
					streams = append(streams, &stream{wire.Output{Request: s.Request, Epoch: 1, Batch: wire.BatchID(100 + i)}, outputOf(s.Request), 0})
				}
			}
			for len(streams) > 0 {
				k := r.IntN(len(streams))
				s := streams[k]
				to := min(len(s.b), s.next+1+r.IntN(300<<10))
				sendPart(data, s.m, s.b, s.next, to)
				if s.next = to; to == len(s.b) {
					streams = append(streams[:k], streams[k+1:]...)
				}
			}
		}()
	}
	client := c.dial(nil)
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			r, err := client.Infer(context.Background(), large(byte(i)))
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
				return
			}
			if !bytes.Equal(r.Outputs[0].Data, outputOf(r.Request)) {
				t.Errorf("seed %d: request %x has another's output", seed, r.Request)
			}
			r.Release()
		})
	}
	all.Wait()
	if n := client.outputs.used.Load(); n != 0 {
		t.Errorf("%d bytes of outputs are awaited", n)
	}
}

// An output of another size than its model's is no answer, and said so at once.
func TestPartsOfAnotherSize(t *testing.T) {
	c := largeCluster(t)
	c.onSubmit = func(_ *cluster, _, data transport.Link, s wire.Submit) {
		sendPart(data, wire.Output{Request: s.Request, Epoch: 1, Batch: 1}, make([]byte, 2*largeSize), 0, 1000)
	}
	if _, err := c.dial(nil).Infer(context.Background(), large(1)); !errors.Is(err, ErrFailed) {
		t.Errorf("%v, want %v", err, ErrFailed)
	}
}

// Parts that cannot be of one output end the link, and the request is answered at once with the reason.
func TestPartsThatDoNotFit(t *testing.T) {
	for name, parts := range map[string][]wire.Output{
		"overlap":       {{Offset: 0, Total: largeSize}, {Offset: 1000, Total: largeSize}},
		"gap":           {{Offset: 0, Total: largeSize}, {Offset: 300_000, Total: largeSize}},
		"another total": {{Offset: 0, Total: largeSize}, {Offset: 200_000, Total: 2 * largeSize}},
		"beyond":        {{Offset: 0, Total: largeSize}, {Offset: 200_000, Total: 300_000}},
	} {
		c := largeCluster(t)
		c.onSubmit = func(_ *cluster, _, data transport.Link, s wire.Submit) {
			for _, m := range parts {
				m.Request, m.Epoch, m.Batch = s.Request, 1, 1
				_ = data.SendPayload(m.Append(nil, 200_000), make([]byte, 200_000), nil)
			}
		}
		_, err := c.dial(nil).Infer(context.Background(), large(1))
		if e := new(Error); !errors.As(err, &e) || e.Reason != wire.ReasonBackendLost {
			t.Errorf("%s: %v, want %v", name, err, wire.ReasonBackendLost)
		}
	}
}

// A backend that dies while an output comes, or ends it with a reason: its request is answered then, not at its deadline.
func TestOutputIsCutShort(t *testing.T) {
	for want, end := range map[wire.Reason]func(transport.Link, wire.Output){
		wire.ReasonBackendLost: func(data transport.Link, _ wire.Output) { data.Close(nil) },
		wire.ReasonDeadline: func(data transport.Link, m wire.Output) {
			m.Reason = wire.ReasonDeadline
			_ = data.Send(m.Append(nil, 0))
		},
	} {
		c := largeCluster(t)
		c.onSubmit = func(_ *cluster, _, data transport.Link, s wire.Submit) {
			m := wire.Output{Request: s.Request, Epoch: 1, Batch: 1}
			sendPart(data, m, outputOf(s.Request), 0, 256<<10)
			end(data, m)
		}
		client := c.dial(nil)
		_, err := client.Infer(context.Background(), large(1))
		if e := new(Error); !errors.As(err, &e) || e.Reason != want {
			t.Errorf("%v, want %v", err, want)
		}
		if n := client.outputs.used.Load(); n != 0 {
			t.Errorf("%d bytes are awaited", n)
		}
	}
}

// Parts of an output whose request is answered are discarded, and counted; the link goes on.
func TestPartsThatNobodyAwaits(t *testing.T) {
	c := largeCluster(t)
	rest := make(chan func(), 1)
	c.onSubmit = func(c *cluster, _, data transport.Link, s wire.Submit) {
		b, m := outputOf(s.Request), wire.Output{Request: s.Request, Epoch: 1, Batch: 1}
		sendPart(data, m, b, 0, 256<<10)
		select {
		case rest <- func() { sendPart(data, m, b, 256<<10, len(b)) }:
		default: // the second one is whole
			sendPart(data, m, b, 256<<10, len(b))
		}
	}
	client := c.dial(nil)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := client.Infer(ctx, large(1)); !errors.Is(err, ErrCancelled) {
		t.Fatal(err)
	}
	late := <-rest
	rest <- nil
	late()
	r, err := client.Infer(context.Background(), large(2))
	if err != nil || !bytes.Equal(r.Outputs[0].Data, outputOf(r.Request)) {
		t.Fatal(err)
	}
	if n := client.outputs.used.Load(); n != 0 {
		t.Errorf("%d bytes are awaited", n)
	}
}

// Outputs for which there is no room are refused before anything is sent, and the numbers are said.
func TestNoRoomForOutputs(t *testing.T) {
	c := largeCluster(t)
	held := make(chan func(), 10)
	c.onSubmit = func(_ *cluster, _, data transport.Link, s wire.Submit) {
		held <- func() { sendPart(data, wire.Output{Request: s.Request}, outputOf(s.Request), 0, largeSize) }
	}
	client := c.dial(func(o *Options) { o.OutputsMax = 2*largeSize + 10 })
	done := make(chan error, 10)
	for i := range 3 {
		client.InferAsync(context.Background(), large(byte(i)), func(_ *Response, err error) { done <- err })
	}
	err := <-done // of the third one: the others are held
	if e := new(Error); !errors.As(err, &e) || e.Kind != ErrOverloaded || e.Reason != wire.ReasonMemory {
		t.Errorf("%v, want overloaded, memory", err)
	}
	for range 2 {
		(<-held)()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	small := c.dial(func(o *Options) { o.OutputsMax = largeSize - 1 })
	if _, err := small.Infer(context.Background(), large(1)); !errors.Is(err, ErrBadInput) {
		t.Errorf("%v, want an error that says that it never fits", err)
	}
}
