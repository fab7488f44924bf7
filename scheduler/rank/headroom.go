package rank

import (
	"errors"
	"math"
	"strconv"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Headroom is how many GPUs beyond the need (Rank.Need) may take batches earlier than
// deferral alone would start them. GPUs beyond get none of those: they stay idle, and can be
// given back. The zero Headroom is all GPUs that there are.
type Headroom struct {
	Limited bool
	Share   float64 // of the need, when Limited; 0: no batch is early
}

// ErrHeadroom is the cause when a headroom cannot be read.
var ErrHeadroom = errors.New("must be all, or a share of the need from 0 to 100")

// ParseHeadroom reads "all", "0.25", "0" (no batch is early); "" is all.
func ParseHeadroom(text string) (Headroom, error) {
	if text == "" || text == "all" {
		return Headroom{}, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return Headroom{}, ErrHeadroom
	}
	return Headroom{Limited: true, Share: v}, nil
}

// None: no batch may start earlier than deferral alone would start it.
func (h Headroom) None() bool { return h.Limited && h.Share == 0 }

func (h Headroom) String() string {
	if !h.Limited {
		return "all"
	}
	return strconv.FormatFloat(h.Share, 'g', -1, 64)
}

// keep reckons how many GPUs, from id 0 on, may take early batches. It asks for the need
// in any case: so Need after Step changes nothing, and whoever asks does not show in a replay.
func (r *Rank) keep(now mono.Time) {
	need := r.Need(now)
	switch h := r.cfg.Headroom; {
	case !h.Limited:
	case h.None():
		r.kept = 0
	default:
		r.kept = r.gpus.Holding(max(1, int(math.Ceil(float64(need*(1+h.Share))))))
	}
}

// Kept is below which id GPUs may take early batches.
func (r *Rank) Kept() int { return int(r.kept) }
