package plan

import (
	"testing"

	"pgregory.net/rapid"
)

// TestRestartedAtEveryStep: a controller that dies after each step that it has begun, so that
// every one is begun by another, comes to the same end as one that lives.
func TestRestartedAtEveryStep(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := newHistory(r)
		h.faulty = false
		for range rapid.IntRange(0, 20).Draw(r, "steps of another plan") {
			if h.stepEnds(); len(h.orders) == 0 {
				h.next()
			}
			h.check()
		}
		h.plan = h.anyPlan()
		h.orders = nil
		for _, d := range h.devices {
			clear(d.loading)
		}
		for i := 0; ; i++ {
			h.begin()
			if h.next(); len(h.orders) == 0 {
				break
			}
			if i > 2000 {
				r.Fatalf("it does not end: %v under way, %v", h.orders, h.rollout.Problems())
			}
			o := h.orders[rapid.IntRange(0, len(h.orders)-1).Draw(r, "the one step that is done")]
			for _, other := range h.orders {
				if other != o && other.Kind == Load {
					delete(h.device(other.GPU).loading, other.Models[0])
				}
			}
			h.orders = []*errand{o}
			h.finish(o, "")
		}
		wrong := h.asPlanned()
		if phase := h.rollout.Phase(); (phase == Done) != (wrong == "") {
			r.Fatalf("%v: %s; %v", phase, wrong, h.rollout.Problems())
		} else if phase == Marked && !h.faulty && !h.tight && h.possible() {
			r.Fatalf("nothing stands in its way, and %v", h.rollout.Problems())
		}
	})
}
