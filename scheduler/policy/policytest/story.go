// Package policytest drives a policy.Scheduler by hand under a virtual clock
// and writes down what it does: the golden transcripts of the policies. GPUs
// take exactly as long as was planned. (bench/sim is the large driver, with
// networks, jitter and statistics.)
//
// At each instant: batches end, then the caller acts, then Step.
package policytest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Story is a scheduler, GPUs and a clock, and the text of what happened.
type Story struct {
	Unit      mono.Dur // what the transcript counts in; 0 means a millisecond
	scheduler policy.Scheduler
	now       mono.Time
	out       policy.Out
	runs      []run
	text      strings.Builder
	serial    wire.RequestID
	open      map[wire.RequestID]bool // submitted, and no way out yet
	t         *testing.T
}

type run struct {
	policy.Dispatch
	start, end mono.Time
}

// New starts a story at instant 0 with n GPUs.
func New(t *testing.T, s policy.Scheduler, models []policy.Model, gpus int) *Story {
	y := &Story{Unit: mono.Millisecond, scheduler: s, t: t, open: map[wire.RequestID]bool{}}
	for i, m := range models {
		s.AddModel(wire.ModelID(i), m)
	}
	for i := range gpus {
		s.AddGPU(0, wire.GPUID(i), &y.out)
	}
	y.settle()
	return y
}

// Submit advances to instant at (in units) and hands in n requests that are
// due slo later.
func (y *Story) Submit(at float64, model wire.ModelID, n int, slo mono.Dur) {
	y.Advance(at)
	first := y.serial + 1
	for range n {
		y.serial++
		y.open[y.serial] = true
		y.scheduler.Submit(y.now, model, batching.Request{ID: y.serial, Arrival: y.now, Deadline: y.now.Add(slo)}, &y.out)
	}
	name := fmt.Sprintf("R%d", first)
	if n > 1 {
		name += fmt.Sprintf("-R%d", y.serial)
	}
	y.line("%s arrives for model %d, due %s", name, model, y.units(y.now.Add(slo)))
	y.settle()
}

// RemoveGPU advances to instant at and loses a GPU with what runs there. The
// requests of those batches are open again before the scheduler hears of it:
// it may drop them in the same call.
func (y *Story) RemoveGPU(at float64, id wire.GPUID) {
	y.Advance(at)
	y.line("GPU %d is lost", id)
	y.runs = slices.DeleteFunc(y.runs, func(r run) bool {
		if r.GPU == id {
			y.reopen(r.Requests)
		}
		return r.GPU == id
	})
	y.scheduler.RemoveGPU(y.now, id, &y.out)
	y.settle()
}

// reopen takes requests back whose batch did not end.
func (y *Story) reopen(requests []batching.Request) {
	for i := range requests {
		y.open[requests[i].ID] = true
	}
}

// Advance runs everything that is due up to instant at.
func (y *Story) Advance(at float64) {
	to := mono.Time(mono.Dur(at * float64(y.Unit)))
	for {
		next := y.scheduler.NextWake()
		for i := range y.runs {
			next = min(next, y.runs[i].end)
		}
		if next > to {
			break
		}
		y.now = max(y.now, next)
		y.complete()
		y.settle()
	}
	y.now = max(y.now, to)
}

func (y *Story) complete() {
	for i := 0; i < len(y.runs); {
		r := y.runs[i]
		if r.end > y.now {
			i++
			continue
		}
		y.runs = slices.Delete(y.runs, i, i+1)
		y.scheduler.Done(y.now, r.Batch, r.end, &y.out)
	}
}

// settle steps the scheduler and writes down what it did.
func (y *Story) settle() {
	y.apply()
	for range 1000 {
		if y.scheduler.NextWake() > y.now {
			return
		}
		y.scheduler.Step(y.now, &y.out)
		y.apply()
	}
	y.t.Fatalf("at %s: something is due for ever (%v)", y.units(y.now), y.scheduler.NextWake())
}

// apply takes preemptions first: what was preempted may be dropped in the same
// Out, and its GPU may have been given to another batch.
func (y *Story) apply() {
	for _, p := range y.out.Preempts {
		i := slices.IndexFunc(y.runs, func(r run) bool { return r.Batch == p.Batch })
		if i < 0 || y.runs[i].GPU != p.GPU {
			y.t.Fatalf("preempts batch %x on GPU %d, which does not run there", p.Batch, p.GPU)
		}
		y.line("GPU %d is preempted: %s wait again", p.GPU, names(y.runs[i].Requests))
		y.reopen(y.runs[i].Requests)
		y.runs = slices.Delete(y.runs, i, i+1)
	}
	for _, d := range y.out.Drops {
		y.leave(d.Request.ID)
		y.line("R%d is dropped: %v", d.Request.ID, d.Reason)
	}
	for _, d := range y.out.Dispatches {
		y.launch(d)
	}
	y.out.Reset()
}

func (y *Story) launch(d policy.Dispatch) {
	d.Requests = slices.Clone(d.Requests)
	r := run{Dispatch: d, start: max(d.Exec, y.now)}
	for i := range y.runs {
		if y.runs[i].GPU == d.GPU {
			r.start = max(r.start, y.runs[i].end)
		}
	}
	r.end = r.start.Add(d.Until.Sub(d.Exec))
	y.runs = append(y.runs, r)
	late := ""
	for _, q := range d.Requests {
		y.leave(q.ID)
		if r.end > q.Deadline {
			late = ", LATE"
		}
	}
	y.line("GPU %d runs %d of model %d: %s, from %s to %s%s", d.GPU, len(d.Requests), d.Model, names(d.Requests), y.units(r.start), y.units(r.end), late)
}

func (y *Story) leave(id wire.RequestID) {
	if !y.open[id] {
		y.t.Fatalf("R%d leaves twice", id)
	}
	delete(y.open, id)
}

// names is "R1-R3 R7".
func names(requests []batching.Request) string {
	var out []string
	for i := 0; i < len(requests); {
		j := i
		for j+1 < len(requests) && requests[j+1].ID == requests[j].ID+1 {
			j++
		}
		name := fmt.Sprintf("R%d", requests[i].ID)
		if j > i {
			name += fmt.Sprintf("-R%d", requests[j].ID)
		}
		out = append(out, name)
		i = j + 1
	}
	return strings.Join(out, " ")
}

func (y *Story) units(t mono.Time) string { return fmt.Sprintf("%.2f", float64(t)/float64(y.Unit)) }

func (y *Story) line(format string, args ...any) {
	fmt.Fprintf(&y.text, "%8s  %s\n", y.units(y.now), fmt.Sprintf(format, args...))
}

// Open is how many requests have not left yet.
func (y *Story) Open() int { return len(y.open) }

// Golden compares the story, under a header that says what to look at, with
// testdata/NAME.txt; with POLICY_REWRITE=1 in the environment it writes it.
func (y *Story) Golden(name, header string) {
	y.t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := strings.TrimSpace(header) + "\n\n" + y.text.String()
	if os.Getenv("POLICY_REWRITE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			y.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			y.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		y.t.Fatal(err)
	}
	if got != string(want) {
		y.t.Errorf("%s has changed; got\n%s", path, got)
	}
}
