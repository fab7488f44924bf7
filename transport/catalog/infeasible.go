package catalog

import (
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Alone is what a batch of one takes.
func (p *Profile) Alone() mono.Dur { return p.Of(1) }

// Of is what a batch of b >= 1 takes, or the largest one that the table has.
func (p *Profile) Of(b int) mono.Dur {
	if n := len(p.Table); n > 0 {
		return p.Table[min(b, n)-1]
	}
	return p.Alpha*mono.Dur(b) + p.Beta
}

// Infeasible says why no request that asks for no more time than the model's SLO can be in time, whatever
// else runs; "" where that is not so by the profile.
func (m *ModelSpec) Infeasible() string {
	if alone := m.Profile.Alone(); alone > m.SLO {
		return fmt.Sprintf("no request can be in time: one item takes %s, more than its SLO of %s; raise slo, or serve it on faster devices", Span(alone), Span(m.SLO))
	}
	return ""
}

// Span is a duration as people read it: with three digits.
func Span(d mono.Dur) string {
	unit := mono.Dur(1)
	for limit := d / 1000; unit <= limit; unit *= 10 {
	}
	return time.Duration(d).Round(time.Duration(unit)).String()
}
