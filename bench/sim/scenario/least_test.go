package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func leastOf(t *testing.T, s Scenario, l Least) *Outcome {
	t.Helper()
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.FindLeast(l, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestFindLeast: one GPU less does not keep the bound, and a bound on the latency takes more.
func TestFindLeast(t *testing.T) {
	s := small()
	s.Rate, s.Policy = 4000, "eager/target"
	bad := leastOf(t, s, Least{BadRate: 0.01})
	if l := bad.Least; l.GPUs < 2 || l.Fails != l.GPUs-1 || bad.Scenario.GPUs != l.GPUs || len(bad.GPUs) != l.GPUs || bad.All.BadRate > 0.01 || l.Judged != bad.All.Arrived {
		t.Errorf("found %+v: %+v", l, bad.All)
	}
	s.GPUs = bad.Least.Fails
	if o := simulate(t, s); o.All.BadRate <= 0.01 {
		t.Errorf("%d GPUs keep the bound too: %+v", s.GPUs, o.All)
	}
	fast := leastOf(t, s, Least{BadRate: 0.01, QueueP99: mono.Millisecond})
	if fast.Least.GPUs <= bad.Least.GPUs || fast.All.QueueP99 > 1 || fast.Least.Fails != fast.Least.GPUs-1 {
		t.Errorf("found %+v with a bound of 1 ms, %+v without: %+v", fast.Least, bad.Least, fast.All)
	}
	answer := leastOf(t, s, Least{BadRate: 0.01, LatencyP99: mono.FromMillis(12)})
	if answer.All.LatencyP99 > 12 || answer.Least.GPUs <= bad.Least.GPUs {
		t.Errorf("found %+v: %+v", answer.Least, answer.All)
	}
}

// TestFindLeastEnds: where one GPU is enough, and where none are.
func TestFindLeastEnds(t *testing.T) {
	s := small()
	s.Rate = 20
	if o := leastOf(t, s, Least{BadRate: 0.01}); o.Least.GPUs != 1 || o.Least.Fails != 0 {
		t.Errorf("found %+v for 20 r/s", o.Least)
	}
	s.Policy = "symphony/defer"
	s.Rate = 900
	if o := leastOf(t, s, Least{BadRate: 0.01, QueueP99: mono.Millisecond}); o.Least.GPUs != 0 || o.Least.Fails != o.Scenario.GPUs || o.Least.Fails < 4 {
		t.Errorf("found %+v: deferral waits, on any number of GPUs", o.Least)
	}
}

// TestSearchFindsTheEdge: from any start, and downwards by steps that grow past what is left, the
// search ends at the least number that passes and the next below, which failed.
func TestSearchFindsTheEdge(t *testing.T) {
	const most = 100
	for edge := 1; edge <= most; edge++ {
		for start := 1; start <= most; start++ {
			l, tries := Least{}, 0
			err := l.search(start, most, func(gpus int) (bool, error) {
				if tries++; gpus < 1 || gpus > most || tries > 50 {
					return false, fmt.Errorf("try %d is %d GPUs", tries, gpus)
				}
				if gpus >= edge {
					l.GPUs = gpus
				} else {
					l.Fails = max(l.Fails, gpus)
				}
				return gpus >= edge, nil
			})
			if err != nil || l.GPUs != edge || l.Fails != edge-1 {
				t.Errorf("edge %d from %d: %d passes, %d fails, %v", edge, start, l.GPUs, l.Fails, err)
			}
		}
	}
}

func TestLeastRefuses(t *testing.T) {
	for _, c := range []struct {
		flag string
		l    Least
	}{
		{"bad-rate", Least{}}, {"queue-p99", Least{BadRate: 0.01, QueueP99: -1}}, {"latency-p99", Least{BadRate: 0.01, LatencyP99: 1}},
		{"queue-p99", Least{BadRate: 0.01, QueueP99: mono.Second}}, {"latency-p99", Least{BadRate: 0.01, LatencyP99: 2 * mono.Second}},
	} {
		if err := c.l.Check(); err == nil || !strings.Contains(err.Error(), "--"+c.flag) {
			t.Errorf("%+v: error %v, want one of --%s", c.l, err, c.flag)
		}
	}
}

// TestLongestBoundBinds: the longest bound that is taken is one that a long time exceeds.
func TestLongestBoundBinds(t *testing.T) {
	s := small()
	s.Models[0].SLO = 10 * mono.Second
	s.Rate, s.Duration, s.GPUs = 2000, 4*mono.Second, 1 // a queue of seconds
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	o := simulate(t, s)
	for _, l := range []Least{{BadRate: 0.5, QueueP99: boundMost}, {BadRate: 0.5, LatencyP99: boundMost}} {
		if err := l.Check(); err != nil || o.All.BadRate > 0.5 || p.keeps(&l, o) {
			t.Errorf("%+v is kept, %v: %+v", l, err, o.All)
		}
	}
}
