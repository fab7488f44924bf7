package plan

import (
	"fmt"
	"strings"
	"testing"
)

// unknown is a story of GPUs that serve ten models, and of more models without a profile that
// are to be served beside them.
func unknown(t *testing.T, gpus, more int, need float64) *story {
	s := newStory(t, "", gpus, 10)
	for _, m := range s.things {
		m.needs["x"] = need / 10
		m.static, m.dynamic = gib/64, gib/64
	}
	p := Plan{Epoch: 1, SubClusters: []SubCluster{subCluster("a", gpus, upTo(0, 10)...)}}
	s.already(p)
	for i := range more {
		m := s.add(fmt.Sprintf("n%02d/1", i))
		m.static, m.dynamic, m.measured = gib/64, gib/64, map[string]bool{}
		m.needs["x"] = 0.001
		p.SubClusters[0].Models = append(p.SubClusters[0].Models, m.key)
	}
	p.Epoch++
	s.plan = p
	return s
}

// measuredBy counts what each GPU has measured, and the most that did so at a time.
func (s *story) measuredBy() (by map[string]int, most int) {
	by = map[string]int{}
	for i := 0; ; i++ {
		s.next()
		n := 0
		for _, o := range s.orders {
			if o.Kind == Measure {
				n++
			}
		}
		most = max(most, n)
		if s.rollout.Phase() != Running && len(s.orders) == 0 {
			return by, most
		}
		if i > 5000 {
			s.t.Fatalf("it does not end: %v", s.rollout.Problems())
		}
		if len(s.orders) == 0 {
			s.now = max(s.now, s.rollout.Wake())
			continue
		}
		if o := s.orders[0]; o.Kind == Measure {
			by[o.GPU]++
		}
		s.finish(s.orders[0], "")
	}
}

// A single GPU, and GPUs that are all needed, measure in their gaps, which the steps say; nothing
// is drained.
func TestMeasureInGaps(t *testing.T) {
	for gpus, need := range map[int]float64{1: 0.3, 3: 2.9} {
		s := unknown(t, gpus, 6, need)
		s.begin()
		by, _ := s.measuredBy()
		s.wantPhase(Done)
		if s.shorts < 12 || strings.Contains(s.text.String(), "drain") || len(by) != gpus {
			t.Errorf("%d GPUs: %d steps say that they disturb, measured by %v:\n%s", gpus, s.shorts, by, s.text.String())
		}
	}
}

// GPUs that can be spared are drained for it, more of them for many models, and nothing that serves
// measures.
func TestMeasureOnDrained(t *testing.T) {
	for more, want := range map[int]int{1: 1, 6: 2, 40: 4} {
		s := unknown(t, 8, more, 3.5)
		s.begin()
		by, _ := s.measuredBy()
		s.wantPhase(Done)
		if s.shorts > 0 || len(by) != want {
			t.Errorf("%d models: %d steps disturb, measured by %v, want %d GPUs", more, s.shorts, by, want)
		}
	}
}

// GPUs that serve nothing yet measure all at a time, as many models each.
func TestMeasureSpreads(t *testing.T) {
	for _, state := range []State{Free, Serving} {
		s := newStory(t, "", 8, 0)
		s.limits = Limits{LoadsHost: 2}
		for _, d := range s.devices {
			if d.state = state; state == Serving {
				d.in, d.idle = "a", true
			}
		}
		p := Plan{Epoch: 1, SubClusters: []SubCluster{subCluster("a", 8)}}
		for i := range 160 {
			m := s.add(fmt.Sprintf("n%03d/1", i))
			m.static, m.dynamic, m.measured = gib/64, gib/64, map[string]bool{}
			m.needs["x"] = 0.001
			p.SubClusters[0].Models = append(p.SubClusters[0].Models, m.key)
		}
		s.plan = p
		s.begin()
		by, most := s.measuredBy()
		s.wantPhase(Done)
		if most < 6 {
			t.Errorf("%v: %d measure at a time, want most of 8", state, most)
		}
		for gpu, n := range by {
			if n > 40 {
				t.Errorf("%v: %s measures %d of 160 models: %v", state, gpu, n, by)
			}
		}
	}
}
