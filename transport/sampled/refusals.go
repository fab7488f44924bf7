package sampled

import "github.com/rs/zerolog"

// Refusals are the connections that a listener turned away.
type Refusals struct{ *Log[refusal] }

type refusal struct {
	remote string
	err    error
}

// NewRefusals logs refusals of a listener, as warnings.
func NewRefusals(log zerolog.Logger) Refusals {
	return Refusals{New(Span, func(r refusal, left int) {
		e := log.Warn().Str("remote", r.remote).Err(r.err)
		if left > 0 {
			e = e.Int("and_others", left)
		}
		e.Msg("connection refused")
	})}
}

// Refused is transport.Options.Refused.
func (r Refusals) Refused(remote string, err error) { r.Add(refusal{remote, err}) }
