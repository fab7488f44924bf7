package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ClientTarget sends through the Go client library.
type ClientTarget struct {
	Client *frontend.Client
	Models []ModelInput
}

// ModelInput is a model and what it is sent.
type ModelInput struct {
	Name   string
	Inputs []frontend.Tensor
}

// MakeInput makes an input that fits the model: small numbers from a seed.
func MakeInput(spec *catalog.ModelSpec, seed uint64) ModelInput {
	tensors := slices.Clone(spec.Inputs)
	for i := range tensors {
		tensors[i].Shape = append([]int64{1}, tensors[i].Shape...)
	}
	return MakeInputAs(spec.Name, tensors, seed)
}

// MakeInputAs is MakeInput with whole shapes: the batch dimension is theirs.
func MakeInputAs(name string, tensors []catalog.TensorSpec, seed uint64) ModelInput {
	r := rand.New(rand.NewPCG(seed, 0x696e))
	m := ModelInput{Name: name}
	for _, in := range tensors {
		t := frontend.Tensor{Name: in.Name, Type: in.Type, Shape: in.Shape, Data: make([]byte, max(0, in.ByteSize()))}
		switch in.Type {
		case catalog.FP16, catalog.FP32, catalog.FP64, catalog.Bool: // stay 0: any bytes could be NaN
		case catalog.Bytes:
			for range in.Elements() { // a length, and so many bytes
				t.Data = append(t.Data, 1, 0, 0, 0, byte('0'+r.IntN(10)))
			}
		default:
			for i := range t.Data {
				t.Data[i] = byte(r.IntN(100))
			}
		}
		m.Inputs = append(m.Inputs, t)
	}
	return m
}

// Send implements Target.
func (c *ClientTarget) Send(model int, budget mono.Dur, done func(Answer)) {
	if budget <= 0 {
		done(Answer{Reason: "generator_late"})
		return
	}
	m := &c.Models[model]
	c.Client.InferAsync(context.Background(), frontend.Request{Model: m.Name, Inputs: m.Inputs, Timeout: time.Duration(budget)}, func(r *frontend.Response, err error) {
		if err != nil {
			done(Answer{Reason: reason(err)})
			return
		}
		done(Answer{BatchSize: r.BatchSize, Cold: r.Cold, Execute: mono.Dur(r.Execute)})
	})
}

// reason is an error's word in the report.
func reason(err error) string {
	var e *frontend.Error
	if errors.As(err, &e) && e.Reason != wire.ReasonNone {
		return e.Reason.String()
	}
	return "error"
}
