// Package mono is the one place that reads the machine's clock.
//
// Instants (Time) and spans (Dur) are different types, so that the compiler
// refuses to add two instants or to print a span as a date. Both are integer
// nanoseconds: a float's rounding can re-arm a timer for ever.
//
// An instant belongs to the process that read it. It never crosses a link
// untranslated: package wire's decoders demand the shift between the sender's
// clock and ours.
package mono

import (
	"fmt"
	"math"
	"time"
)

// Time is an instant: nanoseconds since this process's clock base.
type Time int64

// Dur is a span of time in nanoseconds.
type Dur int64

// Spans.
const (
	Nanosecond  Dur = 1
	Microsecond     = 1000 * Nanosecond
	Millisecond     = 1000 * Microsecond
	Second          = 1000 * Millisecond
)

const (
	// Never is later than every instant: a timer set to it does not fire.
	Never Time = math.MaxInt64
	// Past is earlier than every instant.
	Past Time = math.MinInt64
)

// base carries Go's monotonic reading. It lies an hour in the past so that
// instants translated from a peer that started earlier stay positive.
var base = time.Now().Add(-time.Hour)

// Now reads the monotonic clock.
func Now() Time { return Time(time.Since(base)) }

// FromStd turns a wall-clock deadline (of a context, say) into an instant.
func FromStd(t time.Time) Time { return Time(t.Sub(base)) }

// FromSeconds, FromMillis round to the nearest nanosecond.
func FromSeconds(s float64) Dur { return Dur(math.Round(s * 1e9)) }
func FromMillis(ms float64) Dur { return Dur(math.Round(ms * 1e6)) }

// Add saturates at Never and Past, so Never plus anything stays Never. Two branches that are
// nearly never taken: it is called a dozen times for each request.
func (t Time) Add(d Dur) Time {
	s := t + Time(d)
	if uint64(t)-uint64(Never) <= 1 { // Never or Past, its neighbour
		return t
	}
	if (t^s)&(Time(d)^s) < 0 { // the sum has the sign of neither
		if d > 0 {
			return Never
		}
		return Past
	}
	return s
}

// Sub is the span from u to t.
func (t Time) Sub(u Time) Dur { return Dur(t - u) }

// Std is t on the wall clock's type, for contexts and logs.
func (t Time) Std() time.Time { return base.Add(time.Duration(t)) }

func (t Time) String() string {
	switch t {
	case Never:
		return "never"
	case Past:
		return "past"
	}
	return Dur(t).String()
}

// Std is d as the standard library's span.
func (d Dur) Std() time.Duration { return time.Duration(d) }

// Seconds and Millis are d in floating-point units, for reports only.
func (d Dur) Seconds() float64 { return float64(d) / 1e9 }
func (d Dur) Millis() float64  { return float64(d) / 1e6 }

func (d Dur) String() string {
	if d%Millisecond == 0 {
		return fmt.Sprintf("%dms", d/Millisecond)
	}
	return time.Duration(d).String()
}
