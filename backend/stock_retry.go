package backend

import (
	"errors"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/backend/repository"
)

// Pauses between attempts with a model that fails.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// changesMost is how often files that change while they are read are read again before the log says so.
const changesMost = 3

// retry is when a model that failed is tried again, and what was said of it.
type retry struct {
	timer *time.Timer
	tries int
	said  string // the reason that is in the log, without its numbers
}

func (r *retry) stop() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// forget begins anew.
func (r *retry) forget() {
	r.stop()
	r.tries, r.said = 0, ""
}

// news reports whether a reason is not the one that was said last.
func (r *retry) news(err error) bool {
	text := withoutNumbers(err.Error())
	is := text != r.said
	r.said = text
	return is
}

// failed says why a model is not served, once for a reason, and tries it again later. With all
// the whole model has failed, not its loading on one device. Caller holds mu.
func (s *stock) failed(e *entry, err error, all bool) {
	if e.model != nil {
		err = e.model.Explain(err)
	}
	if all {
		e.err = err
	}
	pause := s.retryLater(e)
	if settles := errors.Is(err, repository.ErrChanges) && e.retry.tries < changesMost; !settles && e.retry.news(err) {
		text := "not served"
		if e.succeeds != nil {
			text = "its files have changed, and cannot be served as they are now: what was served goes on"
		}
		s.b.log.Error().Str("pool", s.p.doc.DeviceType).Str("model", e.key).Err(err).Stringer("again_in", pause).Msg(text)
	}
	s.changed(e)
}

// retryLater has a model tried again after a pause. Caller holds mu.
func (s *stock) retryLater(e *entry) (pause time.Duration) {
	pause = min(retryFirst<<min(e.retry.tries, 20), retryMost)
	if e.retry.timer == nil && !s.closed {
		e.retry.timer = time.AfterFunc(pause, func() { s.again(e) })
	}
	return pause
}

// withoutNumbers is a reason as it is compared: how much is free changes, the reason does not.
func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// again tries a model that failed once more.
func (s *stock) again(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.gone || s.closed || e.retry.timer == nil {
		return
	}
	e.retry.timer = nil
	e.retry.tries++
	s.retried(e)
}

// retried forgets why it failed. Caller holds mu.
func (s *stock) retried(e *entry) {
	e.err, e.later = nil, false
	for d := range e.on {
		if !errors.Is(e.on[d].err, errOtherFiles) {
			e.on[d].err = nil
		}
	}
	s.settle(e)
}
