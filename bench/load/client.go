package load

import (
	"context"
	"errors"
	"math/rand/v2"
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
	r := rand.New(rand.NewPCG(seed, 0x696e))
	m := ModelInput{Name: spec.Name}
	for _, in := range spec.Inputs {
		t := frontend.Tensor{Name: in.Name, Type: in.Type, Shape: append([]int64{1}, in.Shape...), Data: make([]byte, max(0, in.ByteSize()))}
		if in.Type != catalog.FP32 && in.Type != catalog.FP64 && in.Type != catalog.FP16 && in.Type != catalog.Bool {
			for i := range t.Data {
				t.Data[i] = byte(r.IntN(100)) // floats stay 0: any bytes could be NaN
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
		done(Answer{BatchSize: r.BatchSize})
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
