package frontend

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	// labelsAgain is how long after a question that got no answer the next one goes out.
	labelsAgain = 500 * time.Millisecond
	// labelsKept is how many models' labels are kept.
	labelsKept = 4096
)

// Labels are the labels of the last dimension of a model's first output, one for each
// element; none where the model has none. Version "" is the highest. The first call for a
// model asks its backend, which takes a round trip; later ones do not. The error is
// ErrUnknownModel, or ErrUnavailable where no backend answers before ctx ends.
func (c *Client) Labels(ctx context.Context, name, version string) ([]string, error) {
	e, err := c.Model(name, version)
	if err != nil || e.Spec.LabelsID == "" {
		return nil, err
	}
	id := e.Spec.LabelsID
	for {
		if l, ok := c.knownLabels(id); ok {
			return l, nil
		}
		if a := c.admitted.Load(); a != nil {
			transport.SendDoc(a.link, wire.DocWant, catalog.Want{Labels: id})
		}
		again, cancel := context.WithTimeout(ctx, labelsAgain)
		err := c.wait(again, func() bool { _, ok := c.knownLabels(id); return ok })
		cancel()
		if errors.Is(err, transport.ErrClosed) || ctx.Err() != nil {
			return nil, &Error{Kind: ErrUnavailable, Reason: wire.ReasonUnavailable, Model: name, Msg: "its labels did not come: no backend that has them answers"}
		}
	}
}

func (c *Client) knownLabels(id catalog.Digest) ([]string, bool) {
	c.labelsMu.Lock()
	defer c.labelsMu.Unlock()
	l, ok := c.labels[id]
	return l, ok
}

// gotLabels takes labels that were asked for.
func (c *Client) gotLabels(payload []byte) error {
	l, err := catalog.DecodeLabels(payload)
	if err != nil {
		return err
	}
	c.labelsMu.Lock()
	defer c.labelsMu.Unlock()
	if len(c.labels) >= labelsKept {
		clear(c.labels)
	}
	c.labels[catalog.DigestOf(payload)] = l
	return nil
}
