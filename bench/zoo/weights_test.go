package zoo

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func v100Model(t *testing.T, name string) Weighted {
	t.Helper()
	all := V100()
	i := slices.IndexFunc(all, func(w Weighted) bool { return w.Name == name })
	if i < 0 {
		t.Fatalf("no %s", name)
	}
	return all[i]
}

// Table 1: its rows, and what section 6 has of ResNet50: 7 pages, of which 196 fit in a V100, and
// a bus that carries 120 of them a second.
func TestTableOfClockwork(t *testing.T) {
	if n := len(V100()); n != 64 {
		t.Errorf("%d models, Table 1 has 64", n)
	}
	if n := len(V100Varieties()); n != 61 {
		t.Errorf("%d varieties, section 6.5 has 61", n)
	}
	for _, name := range []string{"resnet50_v1", "resnet50_v2"} {
		w := v100Model(t, name)
		if n := w.Pages(PageSize); n != 7 || V100Pages/n != 196 {
			t.Errorf("%s: %d pages, want 7, and 196 in a GPU", name, n)
		}
	}
	w := v100Model(t, "resnet50_v2")
	if perSecond := float64(mono.Second) / float64(w.Transfer); perSecond < 120.1 || perSecond > 120.3 {
		t.Errorf("%.2f loads of resnet50_v2 a second, want 120.2", perSecond)
	}
	if w.Input != 602_000 || w.Output != 4_000 || w.Weights != 102_200_000 {
		t.Errorf("%+v", w)
	}
	// Read for cifar_wideresnet16_10 at the file's other end of magnitudes.
	if w := v100Model(t, "cifar_wideresnet16_10"); w.Output != 40 || w.Pages(PageSize) != 5 {
		t.Errorf("%+v", w)
	}
}

// Every row crosses the bus at about its peak: a digit lost in copying would show here. (Two sizes of the
// first column of TSN and of the smallest models are rounded: hence the room.)
func TestTransfersAreOfOneBus(t *testing.T) {
	for _, w := range V100() {
		if perSecond := float64(w.Weights) / w.Transfer.Seconds(); perSecond < 12.1e9 || perSecond > 12.7e9 {
			t.Errorf("%s: %.2f GB/s", w.Name, perSecond/1e9)
		}
	}
}

// The profile is the table at its sizes, on the line between two of them, and monotone.
func TestProfileOfTable(t *testing.T) {
	p := v100Model(t, "resnet50_v2").Profile()
	for b, want := range map[int]mono.Dur{1: 2730, 2: 4050, 3: 4960, 4: 5870, 8: 9930, 12: 13615, 16: 17300} {
		if got := p.Latency(b); got != want*mono.Microsecond {
			t.Errorf("l(%d) = %v, want %v", b, got, want*mono.Microsecond)
		}
	}
	for _, w := range V100() {
		p := w.Profile()
		if p.MaxBatch() != 16 {
			t.Errorf("%s: batches up to %d", w.Name, p.MaxBatch())
		}
		for _, s := range w.Latencies {
			if got := p.Latency(s.Batch); got < s.Latency || got > s.Latency+s.Latency/50 {
				t.Errorf("%s: l(%d) = %v, the table has %v", w.Name, s.Batch, got, s.Latency)
			}
		}
	}
}

func TestWeightedRefused(t *testing.T) {
	const head = weightedHeader + "\n"
	const row = "A,602,4,31.8,2.59,3.80,4.52,6.55,10.22,17.91\n"
	if all, err := readWeighted(head+row, "x.csv"); err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, c := range []struct{ text, want string }{
		{"", "no models"},
		{head, "no models"},
		{"model,alpha_ms\nA,1\n", "x.csv:1: header"},
		{head + row + row, `x.csv:3: model "A" is in line 2`},
		{head + row + "\n", "x.csv:3: 1 columns"},
		{head + row + "B,1,2\n", "x.csv:3: 3 columns"},
		{head + strings.Replace(row, "A,", ",", 1), "x.csv:2: the model has no name"},
		{head + strings.Replace(row, "31.8", "much", 1), `x.csv:2: column 4: weights_mb "much"`},
		{head + strings.Replace(row, "2.59", "0", 1), `x.csv:2: column 5: transfer_ms "0"`},
		{head + strings.Replace(row, "17.91", "1e9", 1), `x.csv:2: column 10: b16_ms "1e9"`},
		{head + strings.Replace(row, "17.91", "NaN", 1), `b16_ms "NaN"`},
	} {
		if _, err := readWeighted(c.text, "x.csv"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
}
