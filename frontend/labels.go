package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/sampled"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	// labelsAgain is how long after a question that got no answer the next one goes out.
	labelsAgain = 500 * time.Millisecond
	// labelsKept is how many models' labels are kept.
	labelsKept = 4096
)

// labels are those that were asked for.
type labels struct {
	bad *sampled.Log[error] // what came and are none

	mu    sync.Mutex // Guards what follows.
	known map[catalog.Digest][]string
	asked map[catalog.Digest]question
}

// question is labels on their way.
type question struct {
	link transport.Link // an answer comes over the same one
	at   mono.Time
}

func newLabels(log zerolog.Logger) labels {
	bad := sampled.New(sampled.Span, func(err error, left int) {
		log.Warn().Err(err).Int("and_others", left).Msg("labels of a backend cannot be read and are not used")
	})
	return labels{bad: bad, known: map[catalog.Digest][]string{}, asked: map[catalog.Digest]question{}}
}

// Labels are the labels of the last dimension of a model's first output, one for each
// element; none where the model has none. Version "" is Model's. The first call for a
// model asks its backend, which takes a round trip; later ones do not. The error is
// ErrUnknownModel, or ErrUnavailable where no backend answers before ctx ends.
func (c *Client) Labels(ctx context.Context, name, version string) ([]string, error) {
	m, missing := c.find(name, version)
	if missing != nil {
		return nil, missing
	}
	id := m.entry.Spec.LabelsID
	if id == "" {
		return nil, nil
	}
	for {
		if l, ok := c.labels.find(id); ok {
			return l, nil
		}
		if now, _ := c.find(name, version); now != nil && now.entry.Spec.LabelsID == id {
			m = now // it may move to another scheduler, or another one lead
		}
		if a := m.uplink.group.asked(); a != nil {
			c.labels.ask(a.link, id)
		}
		again, cancel := context.WithTimeout(ctx, labelsAgain)
		err := c.wait(again, func() bool { _, ok := c.labels.find(id); return ok })
		cancel()
		if errors.Is(err, transport.ErrClosed) || ctx.Err() != nil {
			return nil, &Error{Kind: ErrUnavailable, Reason: wire.ReasonUnavailable, Model: name, Msg: "its labels did not come: no backend that has them answers"}
		}
	}
}

func (s *labels) find(id catalog.Digest) ([]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.known[id]
	return l, ok
}

// ask asks over the link, unless somebody has a moment ago: all wait for one answer. A link
// that is full takes no question now, and is not cut for it.
func (s *labels) ask(l transport.Link, id catalog.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := mono.Now()
	if q, ok := s.asked[id]; ok && q.link == l && now.Sub(q.at).Std() < labelsAgain {
		return
	}
	payload, err := json.Marshal(catalog.Want{Labels: id})
	if err != nil || l.SendPayload((&wire.Doc{Type: wire.DocWant}).Append(nil, len(payload)), payload, nil) != nil {
		return
	}
	if len(s.asked) >= labelsKept {
		clear(s.asked)
	}
	s.asked[id] = question{l, now}
}

// got takes labels that were asked for; others are of no use to anybody.
func (s *labels) got(payload []byte) error {
	l, err := catalog.DecodeLabels(payload)
	if err != nil {
		return err
	}
	id := catalog.DigestOf(payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.asked[id]; !ok {
		return nil
	}
	delete(s.asked, id)
	if len(s.known) >= labelsKept {
		clear(s.known)
	}
	s.known[id] = l
	return nil
}
