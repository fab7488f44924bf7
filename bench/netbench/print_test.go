package netbench

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
)

// sample is a Result of two ways with n samples of everything.
func sample(n int) *Result {
	r := &Result{Config: Setting{Servers: 8, Objects: 8, Size: 150_000, Duration: 10}}
	for i, name := range []string{RDMA, TCP} {
		t := newTally()
		slow := mono.Dur(1 + 9*i)
		for k := range n {
			d := slow * mono.Dur(100+k%100) * mono.Microsecond
			t.round.Add(20 * d)
			t.read.Add(10 * d)
			t.alone.Add(d)
			for e := range t.echoes {
				t.echoes[e].Add(d + mono.Dur(1000*e))
			}
		}
		t.bytes, t.busy = 9_600_000, slow*mono.Millisecond
		t.cpu = usage{client: slow * mono.Millisecond, servers: 2 * slow * mono.Millisecond, machine: 4 * slow * mono.Millisecond, known: i == 0}
		for f := range t.floods {
			t.floods[f] = flooded{count: int64(1000 / (f + 1)), took: slow * mono.Millisecond}
		}
		r.Ways = append(r.Ways, t.result(name))
	}
	return r
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	sample(150).Print(&out)
	for _, want := range []string{
		"Incast: 8 servers, 8 objects of 150 KB each, all READ at once, round after round.\n",
		"           whole round  RDMA      150   2000   2740   3961      -       -   3980\n",
		"        one READ alone   TCP      150   1000   1370   1980      -       -   1990\n",
		"  RDMA           9.600            0.104             0.208             0.417\n",
		"   TCP           0.960            1.042             2.083                 -\n",
		"   8 KiB         Send  RDMA",
		"   8 KiB  SendPayload  RDMA",
		"   64 B  RDMA     1000000\n",
		"  1 KiB   TCP       33300\n",
		"-: too few samples for this percentile; p99.99 takes 10,000",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	if sample(10_000).Print(&out); strings.Contains(out.String(), "too few") {
		t.Errorf("10,000 samples are enough:\n%s", out.String())
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int]string{64: "64 B", 1024: "1 KiB", 1 << 20: "1 MiB", 150_000: "150 KB", 150_001: "150001 B"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// Pictures are drawn of what there is, with the caveat in them.
func TestPictures(t *testing.T) {
	if invariants.Enabled {
		t.Skip("drawn by one goroutine, ten times as slow under the race detector")
	}
	full, some, one := sample(150), sample(10), sample(150)
	some.Ways[1] = WayResult{Name: TCP} // interrupted before its turn
	one.Ways = one.Ways[1:]
	for name, r := range map[string]*Result{"full": full, "some": some, "one": one} {
		svg, _, err := plot.Render(TailSize(), r.Tail(Caveat))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(string(svg), Caveat) {
			t.Errorf("%s: no caveat in the picture", name)
		}
		p, ok := r.Latency(Caveat)
		if !ok {
			t.Fatalf("%s: no picture of messages", name)
		}
		if svg, _, err = plot.Render(LatencySize(), p); err != nil || !strings.Contains(string(svg), Caveat) {
			t.Errorf("%s: messages: %v, or no caveat", name, err)
		}
	}
}
