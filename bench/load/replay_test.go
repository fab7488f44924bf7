package load

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const recording = `timestamp,model,version,timeout_us,items
1763917000.100000,a,1,20000,1
1763917000.100000,b,,0,3

1763917000.150000,other,1,5,1
1763917000.200001,a,1,1000000,1
`

// TestReplay: each request comes when it came, with its time; the items of a batch at a time; models that
// are not played leave no trace but their span.
func TestReplay(t *testing.T) {
	for speed, unit := range map[float64]mono.Dur{0: 1, 1: 1, 2: 2, 0.5: 0} {
		p := NewReplay(strings.NewReader(recording), "r", map[string]int{"a": 0, "b": 1}, speed)
		var got []string
		for {
			gap, model := p.Next()
			if gap == mono.Dur(mono.Never) {
				break
			}
			got = append(got, fmt.Sprintf("%v %d %v", gap, model, p.Budget()))
		}
		want := "0ms 0 20ms, 0ms 1 0ms, 0ms 1 0ms, 0ms 1 0ms, 100.001ms 0 1000ms"
		switch unit {
		case 2:
			want = strings.Replace(want, "100.001ms", "50.0005ms", 1)
		case 0:
			want = strings.Replace(want, "100.001ms", "200.002ms", 1)
		}
		if strings.Join(got, ", ") != want || p.Err() != nil {
			t.Errorf("speed %g: %q, %v", speed, got, p.Err())
		}
	}
}

func TestMeasure(t *testing.T) {
	got, err := Measure(strings.NewReader(recording), "r")
	if err != nil || got.Requests != 6 || got.Span != 100_001*mono.Microsecond || got.Models["a"] != 2 || got.Models["b"] != 3 || got.Models["other"] != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Measure(strings.NewReader("0.5,m\n2,m\n"), "r"); err != nil || got.Span != 1500*mono.Millisecond || got.Requests != 2 {
		t.Errorf("two columns: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"": "r: no requests", "timestamp,model\n": "no requests", "1,m\nx,m\n": "r:2: timestamp", "1\n": "r:1: ", "1,\n": "write timestamp", "2,m\n1,m\n": "r:2: timestamp 1 is before",
		"1,m,,-1\n": "timeout_us", "1,m,,9999999999999\n": "timeout_us", "1,m,,x\n": "timeout_us", "1,m,,0,0\n": "items", "1,m,,0,99999\n": "items", "1.x,m\n": "timestamp",
		"-1,m\n1,m\n": "no requests", "99999999999,m\n": "timestamp", "1,m\n1," + strings.Repeat("m", recordedLineMax): "r:2: ",
	} {
		if text == "-1,m\n1,m\n" { // a first line that begins with no digit is the header
			if got, err := Measure(strings.NewReader(text), "r"); err != nil || got.Requests != 1 {
				t.Errorf("%q: %+v, %v", text, got, err)
			}
			continue
		}
		if _, err := Measure(strings.NewReader(text), "r"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	p := NewReplay(strings.NewReader("1,m\nbroken\n"), "r", map[string]int{"m": 0}, 1)
	p.Next()
	if gap, _ := p.Next(); gap != mono.Dur(mono.Never) || p.Err() == nil {
		t.Errorf("a broken line: %v, %v", gap, p.Err())
	}
}

func FuzzMeasure(f *testing.F) {
	f.Add(recording)
	f.Add("1,m\n1.000000001,m,,3,4\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Measure(strings.NewReader(text), "r")
		if err != nil {
			return
		}
		index := map[string]int{}
		for m := range got.Models {
			index[m] = 0
		}
		p := NewReplay(strings.NewReader(text), "r", index, 1)
		n, span := int64(0), mono.Dur(0)
		for gap, _ := p.Next(); gap != mono.Dur(mono.Never); gap, _ = p.Next() {
			if gap < 0 || p.Budget() < 0 {
				t.Fatalf("%v, %v", gap, p.Budget())
			}
			n, span = n+1, span+gap
			if n > 1<<20 {
				return
			}
		}
		if off := span - got.Span; n != got.Requests || off > mono.Second || off < -mono.Second {
			t.Errorf("%d of %d requests, %v of %v", n, got.Requests, span, got.Span)
		}
	})
}

// TestRunReplays: a run sends each recorded request once, with its own time as budget.
func TestRunReplays(t *testing.T) {
	var mu sync.Mutex
	sent := map[int]int{}
	target := sends(func(model int, budget mono.Dur, done func(Answer)) {
		mu.Lock()
		defer mu.Unlock()
		sent[model]++
		if most := []mono.Dur{mono.Second, 7 * mono.Second}[model]; budget > most || model == 1 && budget < mono.Second {
			t.Errorf("model %d has %v", model, budget)
		}
		done(Answer{BatchSize: 1})
	})
	y, c := &tally{reasons: map[string]int{}}, &Counts{}
	p := NewReplay(strings.NewReader(recording), "r", map[string]int{"a": 0, "b": 1}, 1)
	Run(context.Background(), Config{SLO: []mono.Dur{7 * mono.Second, 7 * mono.Second}, Duration: mono.Second, OutstandingMax: 100, Drain: mono.Second}, target, p, y, c)
	if sent[0] != 2 || sent[1] != 3 || c.Sent.Load() != 5 || c.Lost() != 0 {
		t.Errorf("%v sent, %d lost", sent, c.Lost())
	}
}
