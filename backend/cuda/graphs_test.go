package cuda_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// uncapturing is a Runtime that cannot capture: it says so when it loads, or in a first run.
type uncapturing struct {
	cuda.Runtime
	inRuns bool

	mu    sync.Mutex
	loads []cuda.Graphs
}

func (u *uncapturing) Load(c cuda.Context, s cuda.Stream, m *cuda.Model) (cuda.Program, error) {
	u.mu.Lock()
	u.loads = append(u.loads, m.Graphs)
	u.mu.Unlock()
	if m.Graphs != cuda.GraphsOff && !u.inRuns {
		return nil, cuda.ErrCapture
	}
	p, err := u.Runtime.Load(c, s, m)
	if m.Graphs != cuda.GraphsOff && err == nil {
		p = uncaptured{p}
	}
	return p, err
}

type uncaptured struct{ cuda.Program }

func (uncaptured) Run(slot, size int) error { return cuda.ErrCapture }

// A model that cannot be captured runs without graphs, is said to, and leaves nothing behind of the
// attempt: at the start, and while others run. One whose graphs are demanded is refused.
func TestWithoutGraphs(t *testing.T) {
	for name, inRuns := range map[string]bool{"when it is loaded": false, "in its first run": true} {
		t.Run(name, func(t *testing.T) {
			defer leaks(t)
			u := &uncapturing{inRuns: inRuns}
			one := flip(16)
			r := newRig(t, config{models: []cuda.Model{one}, runtime: func(under cuda.Runtime) cuda.Runtime { u.Runtime = under; return u }})
			defer r.close()
			held := r.device.Stats().Memory.Load()
			if m := r.device.Models(); m[0].Graphs != cuda.GraphsOff {
				t.Errorf("it says to run with graphs %q", m[0].Graphs)
			}
			took, err := r.device.Load(t.Context(), 1, anotherFlip())
			if err != nil || r.device.Stats().Memory.Load() != held+took {
				t.Errorf("a model that comes later takes %d, of %d: %v", took, r.device.Stats().Memory.Load()-held, err)
			}
			demanded := anotherFlip()
			demanded.Graphs = cuda.GraphsOn
			if _, err := r.device.Load(t.Context(), 2, demanded); err == nil || !strings.Contains(err.Error(), cuda.ErrCapture.Error()) {
				t.Errorf("graphs that are demanded: %v", err)
			}
			if len(u.loads) != 5 || u.loads[1] != cuda.GraphsOff || u.loads[3] != cuda.GraphsOff || u.loads[4] != cuda.GraphsOn {
				t.Errorf("it was loaded with %q", u.loads)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.warn) != 2 || !strings.Contains(r.warn[0].Error(), "without CUDA graphs") {
				t.Errorf("warnings: %v", r.warn)
			}
			r.warn = nil
		})
	}
}
