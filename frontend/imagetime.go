package frontend

import (
	"math"
	"sync/atomic"

	"github.com/symphony-serving/symphony/frontend/preprocess"
	"github.com/symphony-serving/symphony/transport/mono"
)

// imageTimes learns how long images take to decode, so that none is begun that cannot be
// done in time.
type imageTimes struct {
	perPixel [preprocess.Formats]atomic.Uint64 // nanoseconds, as bits of a float
}

const (
	// perPixelFirst is taken for what a pixel costs until one has been decoded: less than
	// any machine needs, so that the first is tried.
	perPixelFirst = 2
	// learnMin is the least image, in pixels, that is learnt from, and refused: the time of
	// smaller ones is not that of their pixels, and short.
	learnMin = 1 << 18
	// learnShare is the share of the newest image in the estimate.
	learnShare = 0.25
	// doubtShare is taken off the estimate by each image that it refused. A machine that
	// was slow for a while is tried again.
	doubtShare = 0.01
)

// of is what the image will take; 0: too little to matter.
func (t *imageTimes) of(h *preprocess.Header) mono.Dur {
	if h.Pixels() < learnMin {
		return 0
	}
	return mono.Dur(t.each(h.Format) * float64(h.Pixels()))
}

func (t *imageTimes) each(f preprocess.Format) float64 {
	if each := math.Float64frombits(t.perPixel[f].Load()); each > 0 {
		return each
	}
	return perPixelFirst
}

// took learns from an image that was decoded. Of two that end at once one may be lost.
func (t *imageTimes) took(h *preprocess.Header, d mono.Dur) {
	if h.Pixels() < learnMin {
		return
	}
	each, before := float64(d)/float64(h.Pixels()), math.Float64frombits(t.perPixel[h.Format].Load())
	if before > 0 {
		each = before + (each-before)*learnShare
	}
	t.perPixel[h.Format].Store(math.Float64bits(each))
}

// refused makes the estimate doubt itself.
func (t *imageTimes) refused(h *preprocess.Header) {
	t.perPixel[h.Format].Store(math.Float64bits(t.each(h.Format) * (1 - doubtShare)))
}
