package members

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// A list that is here and takes long to read does not count as late; when its backend leaves
// meanwhile, the next one has its whole time.
func TestArrivedIsNotLate(t *testing.T) {
	w := newWorld(t, limits())
	w.silent = true
	first := w.join(w.info("first", 1, 1, on("gpu", 1, spec("m"))))
	second := w.join(w.info("second", 2, 1, on("gpu", 1, spec("m"))))
	d := w.wanted[0].Digest
	w.c.Arrived(second, d) // was not asked: nothing
	w.c.Arrived(first, catalog.Digest("other"))
	w.c.Arrived(first, d)
	tick := func() {
		var out Effects
		w.c.Tick(w.now, &out)
		w.carryOut(out)
	}
	w.now = w.now.Add(10 * answerTime)
	if tick(); w.refused[first] != nil || w.refused[second] != nil {
		t.Errorf("refused while its list was read: %v, %v", w.refused[first], w.refused[second])
	}
	w.leave(first)
	w.now = w.now.Add(answerTime)
	if tick(); w.refused[second] != nil {
		t.Errorf("refused before its time: %v", w.refused[second])
	}
	w.now = w.now.Add(1)
	tick()
	w.mustNot(second, "did not come")
}
