package paper

import (
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"math"
	"slices"
	"strings"
	"testing"
)

// Section 3.4.2: "We evaluate 5880 different synthetic workloads."
func TestFig7Has5880Configurations(t *testing.T) {
	seen := map[point7]bool{}
	setups := map[string]int{}
	for _, p := range points7() {
		if seen[p] {
			t.Fatalf("%s is there twice", p)
		}
		seen[p] = true
		setups[p.Setup]++
		if _, err := p.workload(); err != nil {
			t.Errorf("refused: %v", err)
		}
	}
	if len(seen) != 5880 || setups[mixed7] != 84 || len(setups) != 7 {
		t.Fatalf("%d configurations, by setup %v; want 5,880, 84 of them mixed", len(seen), setups)
	}
	// With the tight ones, nothing of Table 1 is left out.
	tight := tight7()
	for _, p := range tight {
		if seen[p] {
			t.Fatalf("%s is tight and among the 5,880", p)
		}
	}
	if n := len(seen) - setups[mixed7] + len(tight); n != 7560 {
		t.Fatalf("%d homogeneous configurations in all, want 7,560", n)
	}
}

func TestFig7SampleIsOfTheSet(t *testing.T) {
	all := points7()
	a, b := sample7(all, 300, 1), sample7(all, 300, 1)
	if !slices.Equal(a, b) {
		t.Fatal("one seed, two samples")
	}
	if slices.Equal(a, sample7(all, 300, 2)) {
		t.Fatal("two seeds, one sample")
	}
	seen := map[point7]bool{}
	for _, p := range a {
		if seen[p] || !slices.Contains(all, p) {
			t.Fatalf("%s: drawn twice, or not of the set", p)
		}
		seen[p] = true
	}
	if n := len(sample7(all, 1e6, 1)); n != len(all) {
		t.Fatalf("all of them are %d, not %d", n, len(all))
	}
}

func TestFig7RefusesByName(t *testing.T) {
	p := point7{"DenseNet121", 8, 1.5, 11, 0.1}
	_, err := p.workload()
	if err == nil || !strings.Contains(err.Error(), "DenseNet121") || !strings.Contains(err.Error(), p.String()) {
		t.Fatalf("SLO of 11 ms below l(1) of 11.373 ms: %v", err)
	}
	if _, err := (point7{mixed7, 35, 1, 0.4, 1}).workload(); err == nil || !strings.Contains(err.Error(), "NASNetMobile") {
		t.Fatalf("mix with 0.4 of its SLOs: %v", err)
	}
	if n := (point7{mixed7, 35, 1.5, 1, 1}).gpus(); n != 53 {
		t.Fatalf("35 models with 1.5 GPUs each: %d GPUs, want 53", n)
	}
}

// What the early end of a timeout leaves out must not be the best.
func TestFig7EarlyEndKeepsTheBest(t *testing.T) {
	if invariants.Enabled {
		t.Skip("long, and nothing in it runs side by side: without the race detector")
	}
	for _, p := range []point7{{"InceptionV3", 8, 2, 40, 1}, {"BERT", 8, 1, 40, 0.3}} {
		m, err := settings7{8000, 0.5, 1, 0.01}.plan(p, versions7(), []uint64{3, 4}, 1)
		if err != nil {
			t.Fatal(err)
		}
		w, err := p.workload()
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.run(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		best := max(r.Eager, r.EagerTarget)
		for _, k := range m.Timeouts {
			rates, err := m.search(w, k, []float64{r.Symphony, r.Symphony}, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			best = max(best, mean(rates))
		}
		// Two searches from two guesses may differ by a tolerance each.
		if d := r.best() / best; d < 1-2.5*m.Tolerance || d > 1+2.5*m.Tolerance {
			t.Errorf("%s: best baseline %g r/s (%s), with all timeouts searched %g", p, r.best(), r.TimeoutBy, best)
		}
		if again, err := m.run(w, nil); err != nil || again != r {
			t.Errorf("%s: %+v, then %+v, %v", p, r, again, err)
		}
	}
}

func TestFig7Ratios(t *testing.T) {
	for _, k := range []struct{ ours, theirs, want float64 }{{2, 1, 2}, {0, 0, 1}, {0, 5, 0}, {5, 0, ratioMax}} {
		if got := ratio(k.ours, k.theirs); got != k.want {
			t.Errorf("ratio(%g, %g) = %g, want %g", k.ours, k.theirs, got, k.want)
		}
	}
	r := result7{Symphony: 100, Eager: 90, EagerTarget: 50, Timeout: 95}
	if r.againstSame() != 2 || r.againstBest() != 100.0/95 {
		t.Errorf("%g of eager target, %g of the best", r.againstSame(), r.againstBest())
	}
}

// The mix is judged model by model: it gets more time.
func TestFig7Plan(t *testing.T) {
	k := settings7{1000, 0.1, 4, 0.01}
	seconds := func(p point7, longer float64) float64 {
		m, err := k.plan(p, nil, []uint64{1}, longer)
		if err != nil {
			t.Fatal(err)
		}
		return m.Seconds
	}
	small, large := point7{"BERT", 8, 1, 40, 1}, point7{"BERT", 64, 4, 40, 1}
	if a, b := seconds(small, 1), seconds(large, 1); a <= b || b != 0.1 {
		t.Errorf("%g s with 8 GPUs, %g s with 256: fewer requests/s take longer", a, b)
	}
	if a, b := seconds(small, 4), seconds(small, 1); a < 3.5*b {
		t.Errorf("%g s, four times longer %g s", b, a)
	}
	mix := point7{mixed7, 35, 1, 1, 1}
	w, err := mix.workload()
	if err != nil {
		t.Fatal(err)
	}
	fluid, err := w.Fluid()
	if err != nil {
		t.Fatal(err)
	}
	if got := seconds(mix, 1); got < 4*max(0.1, 1000/fluid) {
		t.Errorf("the mix is simulated for %g s", got)
	}
}

// Of 100 configurations 10 are below the line at first, and 5 of these noise
// alone put there. It lifted others over the line as well, of which the
// sample of 10 has one: one in ten of the 90 counts as lost.
func TestFig7Correction(t *testing.T) {
	ratioOf := func(v float64) result7 { return result7{Symphony: v, Eager: 1} }
	set := &set7{name: "all", points: make([]point7, 100), first: make([]result7, 100), again: map[int]result7{}}
	for i := range set.first {
		set.first[i] = ratioOf(1.1)
		if i < 10 {
			set.first[i], set.again[i] = ratioOf(0.95), ratioOf(0.95+0.1*float64(i%2))
		} else if i < 20 {
			set.again[i] = ratioOf(1.1)
		}
	}
	set.again[12] = ratioOf(0.9)
	first, corrected, within := set.share(func(r *result7) bool { return r.againstBest() >= line7 })
	if math.Abs(first-0.9) > 1e-9 || math.Abs(corrected-(5+0.9*90)/100) > 1e-9 {
		t.Errorf("%g at first, %g corrected; want 0.9 and 0.86", first, corrected)
	}
	// Wilson's interval of 9 in 10 is 0.596 to 0.982.
	if math.Abs(within[0]-(5+0.596*90)/100) > 1e-3 || math.Abs(within[1]-(5+0.982*90)/100) > 1e-3 {
		t.Errorf("corrected to within %v", within)
	}
	text := set.correction()
	for _, want := range []string{"10 of 100 configurations", "below the line 10 were", "5 came up to it", "from 0.9500 to 1.0000", "not below the line 10 were", "1 fell below it", "from 1.1000 to 1.0800"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %q", want, text)
		}
	}
	set.again = nil
	if first, corrected, _ := set.share(func(r *result7) bool { return r.againstBest() >= line7 }); first != corrected {
		t.Errorf("%g and %g with nothing measured again", first, corrected)
	}
}

// Both drop policies of each timeout, and both versions of the paper's
// algorithm, are measured; each is a system.
func TestFig7Systems(t *testing.T) {
	all := append(timeouts7(), versions7()...)
	for _, name := range all {
		if _, err := SystemOf(name); err != nil {
			t.Error(err)
		}
	}
	if slices.Sort(all); len(slices.Compact(all)) != 12 {
		t.Errorf("%v: want five timeouts and Algorithm 1, each with two drop policies", all)
	}
}

// What is below 1 is told and counted, the worst first, with who was better and
// why.
func TestFig7ExplainsTheWorst(t *testing.T) {
	set := &set7{name: "all", points: []point7{{"BERT", 8, 1, 40, 1}, {"InceptionV3", 8, 2, 40, 1}, {"BERT", 8, 1, 50, 1}},
		first: []result7{{Symphony: 99.5, Eager: 90, EagerTarget: 100}, {Symphony: 900, Eager: 100, Timeout: 1000, TimeoutBy: TimeoutOf(20)}, {Symphony: 100, Eager: 100}}}
	out := t.TempDir()
	s := newSession(t, t.Context(), out)
	if err := s.worstOnes7(settings7{1000, 0.2, 1, 0.01}, set); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(s.section.Notes, " "); !strings.Contains(text, "in 2 of 3 configurations") || !strings.Contains(text, "in 1 of them by more than 1 %") {
		t.Errorf("notes %q", text)
	}
	rows := s.section.Tables[0].Rows
	if len(rows) != 2 || rows[0][2] != "0.9000" || rows[0][6] != "timeout 20" || rows[1][6] != EagerTarget || !strings.Contains(rows[0][7], "8 models above 1 % bad") {
		t.Errorf("rows %q", rows)
	}
}
