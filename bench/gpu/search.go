package gpu

import (
	"context"
	"errors"
)

// tried is a rate that was offered.
type tried struct {
	Rate float64 `json:"rate_rps"`
	Held bool    `json:"held"`
	Bad  float64 `json:"bad_rate"` // of the model that has the most
	P99  float64 `json:"p99_ms"`
}

// found is what a search came to.
type found struct {
	Best  float64 `json:"best_rps"`  // 0: no rate was carried
	Worse float64 `json:"worse_rps"` // the lowest above it that was not; 0: none was offered
	Tried []tried `json:"tried"`
}

// A search is over when the rate is known to searchWithin, or after searchMost rates.
const (
	searchWithin = 1.03
	searchMost   = 14
	stepUp       = 1.3
	stepDown     = 0.7
)

// search finds the highest rate that point holds: from a guess up or down by steps, and then
// by halves. It ends when point says that there is no time for another (errEnough).
func search(ctx context.Context, guess float64, point func(ctx context.Context, rate float64) (tried, error)) (found, error) {
	var f found
	rate := guess
	for len(f.Tried) < searchMost {
		t, err := point(ctx, rate)
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return f, err
		}
		f.Tried = append(f.Tried, t)
		if t.Held {
			f.Best = max(f.Best, rate)
		} else if f.Worse == 0 || rate < f.Worse {
			f.Worse = rate
		}
		switch {
		case f.Best > f.Worse && f.Worse > 0: // luck: a higher rate was carried than one that was not
			f.Worse = 0
			rate = f.Best * stepUp
		case f.Worse == 0:
			rate = f.Best * stepUp
		case f.Best == 0:
			if rate = f.Worse * stepDown; rate < 1 {
				return f, nil
			}
		case f.Worse/f.Best <= searchWithin:
			return f, nil
		default:
			rate = (f.Best + f.Worse) / 2
		}
	}
	return f, nil
}

// errEnough: there is no time for another rate.
var errEnough = errors.New("no time for another rate")
