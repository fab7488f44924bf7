package profile

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Line is a fit of l(b) = Alpha*b + Beta and how far the samples lie from it.
type Line struct {
	Alpha, Beta mono.Dur
	MaxError    mono.Dur // largest distance of a sample from the line
	RMSE        mono.Dur // root of the mean squared distance
	RelError    float64  // largest distance relative to the sample
	R2          float64  // share of the variance that the line explains
}

// Fit is the least-squares line through samples of at least two batch sizes.
// Negative coefficients, which noise can produce on flat profiles, become 0 and
// the other coefficient is fitted again.
func Fit(samples []Sample) (Line, error) {
	var n, sx, sy, sxx, sxy float64
	for _, s := range samples {
		x, y := float64(s.Batch), float64(s.Latency)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+float64(x*x), sxy+float64(x*y)
	}
	det := float64(n*sxx) - float64(sx*sx)
	if n < 2 || det <= 0 {
		return Line{}, fmt.Errorf("%w: a fit needs samples of two batch sizes", ErrInvalid)
	}
	alpha := (float64(n*sxy) - float64(sx*sy)) / det
	beta := (sy - float64(alpha*sx)) / n
	switch {
	case beta < 0:
		alpha, beta = sxy/sxx, 0
	case alpha < 0:
		alpha, beta = 0, sy/n
	}
	l := Line{Alpha: mono.Dur(math.Round(alpha)), Beta: mono.Dur(math.Round(beta))}
	l.measure(samples, sy/n)
	return l, nil
}

func (l *Line) measure(samples []Sample, mean float64) {
	var residual, total float64
	for _, s := range samples {
		off := float64(s.Latency) - float64(l.Alpha*mono.Dur(s.Batch)+l.Beta)
		residual += float64(off * off)
		total += float64((float64(s.Latency) - mean) * (float64(s.Latency) - mean))
		l.MaxError = max(l.MaxError, mono.Dur(math.Abs(off)))
		l.RelError = max(l.RelError, math.Abs(off)/float64(s.Latency))
	}
	l.RMSE = mono.Dur(math.Round(math.Sqrt(residual / float64(len(samples)))))
	l.R2 = 1
	if total > 0 {
		l.R2 = 1 - residual/total
	}
}
