package bench

import "testing"

func TestProcessorTimes(t *testing.T) {
	for line, want := range map[string]processorTimes{
		"cpu  5 1 4 80 2 0 3 7 1 1": {all: 102, stolen: 7},
		"cpu0 5 1 4 80 2 0 3 7 1 1": {},
		"cpu 5 1 4":                 {},
		"cpu a b c d e f g h i j":   {},
		"":                          {},
	} {
		if got := parseProcessorTimes(line); got != want {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
}

func TestStolenShare(t *testing.T) {
	from := processorTimes{all: 1000, stolen: 10}
	for _, c := range []struct {
		from, to processorTimes
		share    float64
		ok       bool
	}{
		{from, processorTimes{all: 1400, stolen: 110}, 0.25, true},
		{from, processorTimes{all: 1400, stolen: 10}, 0, true},
		{from, processorTimes{all: 1050, stolen: 20}, 0, false},
		{from, processorTimes{all: 1400, stolen: 5}, 0, false},
		{processorTimes{}, processorTimes{all: 1400, stolen: 110}, 0, false},
	} {
		if share, ok := stolenShare(c.from, c.to); share != c.share || ok != c.ok {
			t.Errorf("%+v to %+v: %v, %v", c.from, c.to, share, ok)
		}
	}
}
