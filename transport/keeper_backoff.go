package transport

import (
	"errors"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// backoff says how long a Keeper waits before it tries again.
type backoff struct {
	wait    mono.Dur  // the last pause, where nobody refused us
	refused mono.Time // when a peer refused us first; 0: the last one did not
}

// next is the pause after an attempt that ended at now: with err, or with a link that
// lived for so long.
func (b *backoff) next(now mono.Time, lived mono.Dur, err error) mono.Dur {
	if !refused(err) {
		b.refused = 0
		if b.wait = min(2*b.wait, backoffMax); b.wait == 0 || lived >= backoffMax {
			b.wait = backoffMin
		}
		return b.wait
	}
	if b.refused == 0 || lived >= livedMin {
		b.refused = now
	}
	return min(max(now.Sub(b.refused)/refusedPart, backoffMax), refusedMax)
}

// refused reports whether the peer is there and does not want us.
func refused(err error) bool { return errors.Is(err, ErrRejected) || errors.Is(err, ErrVersion) }

// failure is what a Keeper told last.
type failure struct {
	text  string
	at    mono.Time
	again mono.Dur
}

// tell reports whether the failure is worth telling.
func (f *failure) tell(now mono.Time, err error) bool {
	text := strings.Map(func(r rune) rune { // ports and spans differ from attempt to attempt
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
	switch {
	case text != f.text:
		*f = failure{text: text, again: tellMin}
	case now.Sub(f.at) < f.again:
		return false
	default:
		f.again = min(2*f.again, tellMax)
	}
	f.at = now
	return true
}
