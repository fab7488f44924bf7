package bench

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
)

// recording is one that is played.
type recording struct {
	command loadCmd // as it asks for what is recorded
}

// measure reads the recording to its end, before anything is sent: what is wrong with it is said, and
// how long it takes and which models it asks is known.
func (c loadCmd) measure() (*recording, error) {
	file, err := os.Open(c.Replay)
	if err != nil {
		return nil, fmt.Errorf("--replay: %w", err)
	}
	defer file.Close()
	all, err := load.Measure(file, c.Replay)
	if err != nil {
		return nil, fmt.Errorf("--replay: %w", err)
	}
	requests := int64(0)
	maps.DeleteFunc(all.Models, func(name string, n int64) bool {
		if !wanted(name, c.Models) {
			return true
		}
		requests += n
		return false
	})
	if requests == 0 {
		return nil, fmt.Errorf("--replay: %s has no request of the models %v", c.Replay, c.Models)
	}
	span := time.Duration(float64(all.Span) / c.Speed)
	if span > loadMost {
		return nil, fmt.Errorf("--replay: %s takes %v, at most %v are played: give a higher --speed", c.Replay, span, loadMost)
	}
	c.Models = slices.Sorted(maps.Keys(all.Models))
	c.Warmup, c.Duration = 0, span+10*time.Millisecond // the last one is sent, too
	c.Rate = float64(requests) / c.Duration.Seconds()
	return &recording{command: c}, nil
}

// open begins to play to the models that are asked. ended closes the file, and tells what was wrong with it.
func (*recording) open(c loadCmd, asked []askedModel) (p load.Arrivals, ended func() error, err error) {
	index := map[string]int{}
	for i, m := range asked {
		index[m.name] = i
	}
	for _, name := range c.Models {
		if _, ok := index[name]; !ok {
			return nil, nil, fmt.Errorf("--replay: %s asks for the model %s, which is not ready there: add it, or leave it out with --models", c.Replay, name)
		}
	}
	file, err := os.Open(c.Replay)
	if err != nil {
		return nil, nil, fmt.Errorf("--replay: %w", err)
	}
	played := load.NewReplay(file, c.Replay, index, c.Speed)
	p = played
	if c.SLO > 0 { // each has this one
		p = onlyArrivals{played}
	}
	return p, func() error {
		file.Close()
		return played.Err()
	}, nil
}

// onlyArrivals hides the recorded budgets.
type onlyArrivals struct{ load.Arrivals }
