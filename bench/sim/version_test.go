package sim_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// overloadRate is about twice of what is carried, for longer than it takes to know that.
const overloadRate = 6000

const versionFile = "testdata/version.txt"

// TestCoreVersion: what each policy does in a second of load, failures,
// overload and pauses is what it did when CoreVersion was last raised.
func TestCoreVersion(t *testing.T) {
	var b strings.Builder
	head := fmt.Sprintf("CoreVersion %d\n", sim.CoreVersion)
	b.WriteString(head)
	for _, policy := range scenario.Policies() {
		b.WriteString(policy)
		for _, rate := range []float64{1200, 2600} {
			b.WriteString(decided(t, policy, rate))
		}
		b.WriteString(decided(t, policy, 1800, sim.Pause{Part: sim.SchedulerPart, Length: 15 * ms, Every: 100 * ms}))
		b.WriteString(decided(t, policy, 2600, sim.Pause{Part: sim.SchedulerPart, Length: 40 * ms, Every: 200 * ms}))
		b.WriteString(decided(t, policy, overloadRate))
		b.WriteByte('\n')
	}
	got := b.String()
	text, err := os.ReadFile(versionFile)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	if line := changed(want, got); line != "" && strings.HasPrefix(want, head) { // -rewrite must not hide it
		t.Fatalf("a simulation has another result than before: raise CoreVersion, then run this test with -rewrite\nit was %s\nnow %s", line, got)
	}
	if *rewrite {
		if err := os.WriteFile(versionFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("CoreVersion or the policies are not those of %s: run this test with -rewrite", versionFile)
	}
}

// changed is a line of a policy that was and still is, and has another result.
func changed(was, is string) string {
	now := map[string]string{}
	for line := range strings.Lines(is) {
		policy, result, _ := strings.Cut(line, " ")
		now[policy] = result
	}
	for line := range strings.Lines(was) {
		policy, result, _ := strings.Cut(line, " ")
		if r, ok := now[policy]; ok && r != result && policy != "CoreVersion" {
			return line
		}
	}
	return ""
}

// TestChanged: a policy that is new or gone does not ask for another
// CoreVersion; one that decides otherwise does.
func TestChanged(t *testing.T) {
	was := "CoreVersion 1\na 1\nb 2\n"
	for is, want := range map[string]string{
		was: "", "CoreVersion 2\na 1\nb 2\n": "", "CoreVersion 1\na 1\nb 2\nc 3\n": "", "CoreVersion 1\nb 2\n": "", "CoreVersion 1\na 1\nb 3\n": "b 2\n",
	} {
		if got := changed(was, is); got != want {
			t.Errorf("%q: %q has changed, want %q", is, got, want)
		}
	}
}

// decided is the counts of a run, whole numbers all.
func decided(t *testing.T, policy string, rate float64, pauses ...sim.Pause) string {
	cfg := config(t, policy, 4, rate, 200*mono.Microsecond)
	cfg.Pauses, cfg.Margins = pauses, len(pauses) > 0
	cfg.Duration, cfg.Detection, cfg.Jitter.Share = mono.Second, 30*ms, 0.01
	if rate == overloadRate {
		cfg.Duration = 4 * mono.Second
	}
	cfg.Models[1].SLO, cfg.Models[2].SLO, cfg.Models[3].Stream.Rate = 40*ms, 90*ms, rate/40
	cfg.Events = []sim.GPUEvent{{At: mono.Time(500 * ms), GPU: 3, Kind: sim.Fail}, {At: mono.Time(700 * ms), GPU: 3, Kind: sim.Join}}
	r, err := sim.Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	var dropped, busy int64
	for _, n := range r.All.Dropped {
		dropped += n
	}
	for _, d := range r.Busy {
		busy += int64(d)
	}
	return fmt.Sprintf(" %g r/s: arrived %d served %d late %d dropped %d (backend_lost %d) batches %d busy_ns %d lost_ns %d;",
		rate, r.All.Arrived, r.All.Served, r.All.Late, dropped, r.All.Dropped[wire.ReasonBackendLost], r.Batches, busy, r.Lost)
}
