package coretest

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const figure4Header = `Symphony, section 3.3, Figure 4: deferred scheduling forms a staggered execution.
3 GPUs, l(b) = b + 5, SLO 12, R1, R2, ... arrive every 0.75, drop rule head.

The paper: at t = 2.25 R4 arrives, frontrun is 2 and latest 3, so R1 to R4 leave as the first
batch; the rest follows in the same way, in batches of 4 that start every 3.00.
Here: the same, in every batch.
`

const figure5aHeader = `Symphony, section 3.3, Figure 5a: R13, R14 and R15 never come, and from R16 on the
model is scheduled eagerly (exec = now). 3 GPUs, l(b) = b + 5, SLO 12, drop rule head.

The paper: at 11.25 R16 runs alone on GPU 1; GPU 2 and GPU 3 each run a batch of 4 when they
finish; at 18 R25 runs alone on GPU 1; at 23.25 GPU 2 finishes, 7 requests wait (R26 to R32) and
only 2 of them fit, since R26 is due at 30.75; then R35, R37, R38 and so on are dropped.
Here: the same batches at the same times and the same drops. One name differs: at 17.25 GPU 1
and GPU 3 finish together. We give R21 to R24 to GPU 1 (smallest id first, section 3.2), the
figure to GPU 3; so R25 runs on our GPU 3.
`

const figure5bHeader = `Symphony, section 3.3, Figure 5b: R13, R14 and R15 never come, and the model stays
deferred. 3 GPUs, l(b) = b + 5, SLO 12, drop rule head.

The paper: the GPUs idle for a short period, then the staggered execution is back.
Here: the same. GPU 1 idles from 11.25 to 13.50, GPU 2 and GPU 3 for 2.25 each in their turn,
nothing is dropped, and every batch has 4 requests.
`

func none(int) bool             { return false }
func missing(i int) bool        { return i >= 13 && i <= 15 }
func nothing(int)               {}
func units(u float64) mono.Time { return mono.Time(u * float64(unit)) }

// Section 3.3: batches of 4 from t = 2.25 on, one every 3.00, on the GPUs in turn.
func TestFigure4Staggered(t *testing.T) {
	s := newStory(t)
	s.play(36, none, nothing)
	for i, r := range s.runs[:9] {
		if r.Start != units(2.25+3*float64(i)) || len(r.Requests) != 4 || r.GPU != wire.GPUID(i%3) {
			t.Errorf("batch %d: %d requests on GPU %d at %v, want 4 on GPU %d at %v", i, len(r.Requests), r.GPU, r.Start, i%3, units(2.25+3*float64(i)))
		}
	}
	if len(s.drops) > 0 {
		t.Errorf("dropped %v", s.drops)
	}
	s.tell(t, "figure4.txt", figure4Header)
}

// Section 3.3: from R16 on, eager batches shrink until requests are dropped.
func TestFigure5aEagerDeteriorates(t *testing.T) {
	s := newStory(t)
	s.play(39, missing, func(i int) {
		if i == 16 {
			s.line(s.cluster.Now, "from here on eager: exec = now")
			s.cluster.SetWindow(0, batching.WindowEager)
		}
	})
	type batch struct {
		first wire.RequestID
		size  int
		start float64
	}
	want := []batch{{1, 4, 2.25}, {5, 4, 5.25}, {9, 4, 8.25}, {16, 1, 11.25}, {17, 4, 14.25}, {21, 4, 17.25}, {25, 1, 18}, {26, 2, 23.25}}
	for i, w := range want {
		if r := s.runs[i]; r.Requests[0].ID != w.first || len(r.Requests) != w.size || r.Start != units(w.start) {
			t.Errorf("batch %d: %d requests from R%d at %v, want %+v", i, len(r.Requests), r.Requests[0].ID, r.Start, w)
		}
	}
	if !slices.Equal(s.drops, []wire.RequestID{35, 37, 38}) {
		t.Errorf("dropped %v, want R35, R37, R38", s.drops)
	}
	s.tell(t, "figure5a.txt", figure5aHeader)
}

// Section 3.3: deferred, the pattern is back after a short idle time.
func TestFigure5bDeferredRegains(t *testing.T) {
	s := newStory(t)
	s.play(39, missing, nothing)
	for i, r := range s.runs[:9] {
		start := 2.25 + 3*float64(i)
		if i >= 3 {
			start += 2.25
		}
		if r.Start != units(start) || len(r.Requests) != 4 || r.GPU != wire.GPUID(i%3) {
			t.Errorf("batch %d: %d requests on GPU %d at %v, want 4 on GPU %d at %v", i, len(r.Requests), r.GPU, r.Start, i%3, units(start))
		}
	}
	if len(s.drops) > 0 {
		t.Errorf("dropped %v", s.drops)
	}
	s.tell(t, "figure5b.txt", figure5bHeader)
}
