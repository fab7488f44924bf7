package policytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Story is a Cluster and the text of what happened there.
type Story struct {
	cluster *Cluster
	text    strings.Builder
	t       *testing.T
}

// New starts a story at instant 0 with n GPUs and no delay in the network.
func New(t *testing.T, s policy.Scheduler, models []policy.Model, gpus int) *Story {
	y := &Story{t: t, cluster: NewCluster(t, policy.Config{}, s, models, gpus)}
	y.cluster.Observe = Observer{Drop: y.dropped, Preempt: y.preempted, Dispatch: y.dispatched}
	return y
}

// Submit advances to instant at (in milliseconds) and hands in n requests that are
// due slo later.
func (y *Story) Submit(at float64, model wire.ModelID, n int, slo mono.Dur) {
	y.Advance(at)
	c := y.cluster
	name := fmt.Sprintf("R%d", c.Submitted+1)
	if n > 1 {
		name += fmt.Sprintf("-R%d", c.Submitted+n)
	}
	y.line("%s arrives for model %d, due %s", name, model, millis(c.Now.Add(slo)))
	c.Submit(model, n, slo)
}

// SubmitEffort advances to instant at and hands in n requests of best effort.
func (y *Story) SubmitEffort(at float64, model wire.ModelID, n int) {
	y.Advance(at)
	c := y.cluster
	y.line("R%d-R%d arrive for model %d, of best effort", c.Submitted+1, c.Submitted+n, model)
	c.SubmitEffort(model, n)
}

// RemoveGPU advances to instant at and loses a GPU with what runs there.
func (y *Story) RemoveGPU(at float64, id wire.GPUID) {
	y.Advance(at)
	y.line("GPU %d is lost", id)
	y.cluster.Lose(id)
}

// Advance runs everything that is due up to instant at.
func (y *Story) Advance(at float64) { y.cluster.Advance(mono.Time(mono.FromMillis(at))) }

func (y *Story) preempted(r *Run) {
	y.line("GPU %d is preempted: %s wait again", r.GPU, names(r.Requests))
}

func (y *Story) dropped(d *batching.Drop) {
	y.line("R%d is dropped: %v", d.Request.ID, d.Reason)
}

func (y *Story) dispatched(r *Run) {
	y.line("GPU %d runs %d of model %d: %s, from %s to %s", r.GPU, len(r.Requests), r.Model, names(r.Requests), millis(r.Start), millis(r.End))
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

func millis(t mono.Time) string { return fmt.Sprintf("%.2f", float64(t)/float64(mono.Millisecond)) }

func (y *Story) line(format string, args ...any) {
	fmt.Fprintf(&y.text, "%8s  %s\n", millis(y.cluster.Now), fmt.Sprintf(format, args...))
}

// Golden ends the story: no request may be open. It compares the text, under a
// header that says what to look at, with testdata/NAME.txt; with
// POLICY_REWRITE=1 in the environment it writes it.
func (y *Story) Golden(name, header string) {
	y.t.Helper()
	if y.cluster.open > 0 {
		y.t.Errorf("%s ends with %d requests open", name, y.cluster.open)
	}
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
