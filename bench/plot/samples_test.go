package plot

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/transport/mono"
)

// sample is a picture as the project draws it, with texts that must show.
type sample struct {
	name    string
	size    Size
	picture Picture
	texts   []string
}

func samples() []sample {
	return []sample{
		{"lines", Size{}, goodput(), []string{"Symphony", "Clockwork", "goodput (requests/s)", "capacity"}},
		{"lines-log", Size{}, logLines(), []string{"bad rate", "stated bound 1 %", "0.001", "10k"}},
		{"lines-many", Size{}, manyLines(), []string{"29 others", "model 36"}},
		{"lines-timeouts", Size{}, timeouts(), []string{"timeout 40 %", "within 5 % of deferred"}},
		{"cdf", Size{}, delays(false), []string{"share of samples", "Shepherd", "SLO"}},
		{"cdf-log", Size{}, delays(true), []string{"share of samples", "0.1"}},
		{"bars", Size{}, goodputBars(), []string{"ResNet50", "n/a", "15.2k", "Nexus 8FE"}},
		{"bars-many", Size{}, manyBars(), []string{"n/a", "Inception"}},
		{"bars-one", Size{W: 3.2, H: 2.6}, Bars{Title: "GPUs for 15k requests/s", Y: Axis{Label: "GPUs"},
			Groups: []string{"Symphony", "Clockwork", "Nexus", "Shepherd"}, Series: []BarSeries{{"GPUs", Values(7, 18, 13, 9)}}}, []string{"18"}},
		{"bars-slanted", Size{W: 4, H: 3}, manyBars(), []string{"Inception Gamma 0.05"}},
		{"stack", Size{}, stack(6), []string{"model 5", "offered"}},
		{"stack-many", Size{}, stack(37), []string{"29 others"}},
		{"grid", Size{W: 6.5, H: 7}, changing(), []string{"A changing workload", "GPUs in use", "bad rate"}},
		{"grid-square", Size{W: 6.5, H: 5}, Grid{Cols: 2, Panels: []Picture{goodput(), delays(false), goodputBars(), timeouts()}}, []string{"Goodput of mixed models"}},
		{"grid-shared", Size{W: 6.5, H: 2.8}, Grid{Title: "Queueing delay of two models", Cols: 2, Shared: true, Panels: []Picture{delays(false), delays(true)}}, []string{"Nexus"}},
		{"timeline", Size{W: 6.5, H: 2.6}, staggered(), []string{"GPU 2", "time (ms)", "requests", "drops"}},
		{"timeline-models", Size{W: 9, H: 4}, mixed(12, 5), []string{"GPU 11", "model 4"}},
		{"timeline-large", Size{W: 9, H: 6}, mixed(64, 37), []string{"GPU 50", "29 others"}},
	}
}

func curveOf(name string, n int, f func(x float64) (float64, float64)) Series {
	s := Series{Name: name}
	for i := range n {
		x, y := f(float64(i) / float64(n-1))
		s.X, s.Y = append(s.X, x), append(s.Y, y)
	}
	return s
}

func goodput() Lines {
	top := func(name string, capacity, fall float64) Series {
		return curveOf(name, 13, func(t float64) (float64, float64) {
			x := t * 30e3
			return x, max(min(x, capacity)-max(0, x-capacity)*fall, 0)
		})
	}
	return Lines{
		Title: "Goodput of ResNet50 on 8 GPUs", X: Axis{Label: "offered load (requests/s)"}, Y: Axis{Label: "goodput (requests/s)"},
		Series:  []Series{top("Symphony", 15200, 0), top("Clockwork", 5300, 0.3), top("Nexus", 11800, 0.05), top("Shepherd", 12600, 0.15)},
		HLines:  []Ref{{16000, "capacity"}},
		Markers: true,
	}
}

func logLines() Lines {
	bad := func(name string, at float64) Series {
		return curveOf(name, 25, func(t float64) (float64, float64) {
			x := math.Pow(10, 1+3*t)
			return x, 1e-4 + 0.9/(1+math.Pow(at/x, 4))
		})
	}
	return Lines{
		Title: "Bad rate against load", X: Axis{Label: "offered load (requests/s)", Log: true}, Y: Axis{Label: "bad rate", Log: true},
		Series: []Series{bad("deferred", 3000), bad("eager", 1500)},
		Bands:  []Band{{Name: "the paper's range", Lo: []float64{0.002}, Hi: []float64{0.02}}},
		HLines: []Ref{{0.01, "stated bound 1 %"}}, VLines: []Ref{{1500, "planned load"}},
	}
}

func manyLines() Lines {
	r := rand.New(rand.NewPCG(1, 2))
	l := Lines{Title: "Rate of 37 models", X: Axis{Label: "time (s)"}, Y: Axis{Label: "requests/s"}}
	for i := range 37 {
		v := 20 + 10*float64(i)
		l.Series = append(l.Series, curveOf(fmt.Sprintf("model %d", i), 200, func(t float64) (float64, float64) {
			v = max(0, v+10*r.NormFloat64())
			return 300 * t, v
		}))
	}
	return l
}

func timeouts() Lines {
	curve := func(name string, peak float64) Series {
		return curveOf(name, 11, func(t float64) (float64, float64) { return 100 * t, 1 - 0.6*math.Abs(t-peak) })
	}
	l := Lines{
		Title: "Timeouts against the deferred rule", X: Axis{Label: "SLO (ms)"}, Y: Axis{Label: "relative goodput"},
		Series:  []Series{curve("timeout 10 %", 0.2), curve("timeout 40 %", 0.5), curve("timeout 70 %", 0.8)},
		Bands:   []Band{{Name: "within 5 % of deferred", Lo: []float64{0.95}, Hi: []float64{1.05}, Of: ""}},
		Markers: true,
	}
	s := l.Series[1]
	l.Bands = append(l.Bands, Band{X: s.X, Lo: shifted(s.Y, -0.05), Hi: shifted(s.Y, 0.05), Of: s.Name})
	return l
}

func shifted(y []float64, by float64) []float64 {
	var out []float64
	for _, v := range y {
		out = append(out, v+by)
	}
	return out
}

func delays(log bool) CDF {
	r := rand.New(rand.NewPCG(3, 4))
	draw := func(name string, median, spread float64, n int) Samples {
		s := Samples{Name: name}
		for range n {
			s.Values = append(s.Values, median*math.Exp(spread*r.NormFloat64()))
		}
		return s
	}
	c := CDF{
		Title: "Queueing delay", X: Axis{Label: "queueing delay (ms)", Min: 0, Max: 30},
		Series: []Samples{draw("Symphony", 5, 0.4, 20000), draw("Clockwork", 12, 0.5, 300), draw("Nexus", 10, 0.4, 40), draw("Shepherd", 6, 0.8, 5000)},
		VLines: []Ref{{25, "SLO"}},
	}
	if log {
		c.X = Axis{Label: "queueing delay (ms)", Log: true, Min: 0.1, Max: 200}
	}
	return c
}

func goodputBars() Bars {
	return Bars{
		Title: "Goodput of mixed models", Y: Axis{Label: "goodput (requests/s)"},
		Groups: []string{"ResNet50", "37 models", "tight SLO"},
		Series: []BarSeries{
			{"Symphony", Values(15230, 9120, 7250.4)}, {"Clockwork", []Bar{{Value: 5321}, {Missing: true}, {Value: 812}}},
			{"Nexus 1FE", Values(11890, 5012, 3999)}, {"Nexus 8FE", Values(8890, 4312, 2999)}, {"Shepherd", Values(12600, 6150, 0)},
		},
	}
}

func manyBars() Bars {
	b := goodputBars()
	b.Groups = []string{"ResNet50 Poisson", "DenseNet121 Poisson", "Inception Gamma 0.05", "BERT Gamma 0.05", "MobileNet Zipf", "EfficientNet", "SSD"}
	for i := range b.Series {
		b.Series[i].Bars = append(b.Series[i].Bars, Values(9000, 12345, 4321, 765)...)
	}
	return b
}

func stack(models int) Stack {
	s := Stack{Title: "Goodput by model", X: Axis{Label: "time (s)"}, Y: Axis{Label: "requests/s"}}
	for i := range 120 {
		s.At = append(s.At, float64(i))
	}
	load := make([]float64, len(s.At))
	for m := range models {
		a := Area{Name: fmt.Sprintf("model %d", m)}
		for i, x := range s.At {
			v := (1 + math.Sin(x/15+float64(m))) * (100 + 30*float64(m%5))
			a.Height = append(a.Height, v)
			load[i] += v * 1.05
		}
		s.Areas = append(s.Areas, a)
	}
	s.Over = []Series{{Name: "offered", X: s.At, Y: load}}
	return s
}

func changing() Grid {
	line := func(label string, f func(x float64) float64, refs ...Ref) Lines {
		return Lines{X: Axis{Label: ""}, Y: Axis{Label: label}, HLines: refs,
			Series: []Series{curveOf(label, 300, func(t float64) (float64, float64) { return 119 * t, f(119 * t) })}}
	}
	first := stack(6)
	first.X.Label, first.Title = "", ""
	last := line("bad rate", func(x float64) float64 { return 0.02 * math.Exp(-math.Pow((x-60)/8, 2)) }, Ref{0.01, "1 %"})
	last.X.Label = "time (s)"
	return Grid{Title: "A changing workload", Panels: []Picture{first,
		line("GPUs in use", func(x float64) float64 { return math.Round(20 + 12*math.Sin(x/15)) }, Ref{32, "all"}),
		line("advice (GPUs)", func(x float64) float64 { return math.Round(5 * math.Sin(x/15)) }), last}}
}

// staggered is the paper's Figure 4 and, at the end, three missing requests.
func staggered() Timeline {
	t := Timeline{Title: "Deferred scheduling, l(b) = b + 5, SLO 12, 3 GPUs", GPUs: 3}
	ms := func(v float64) mono.Time { return mono.Time(v * 1e6) }
	for i := range 48 {
		t.Requests = append(t.Requests, Request{ms(0.75 * float64(i)), min(i/4, 11)})
	}
	for k := range 12 {
		start := 3 + 3*float64(k)
		t.Batches = append(t.Batches, Batch{GPU: k % 3, Start: ms(start), End: ms(start + 9), Size: 4})
	}
	t.Requests[30].Batch, t.Requests[31].Batch = None, None
	t.Drops = []mono.Time{ms(24.8), ms(25.4)}
	return t
}

func mixed(gpus, models int) Timeline {
	r := rand.New(rand.NewPCG(5, 6))
	t := Timeline{Title: "A mix of models", GPUs: gpus}
	for m := range models {
		t.Models = append(t.Models, fmt.Sprintf("model %d", m))
	}
	for g := range gpus {
		at := mono.Time(r.Int64N(20e6))
		for at < 200e6 {
			size := 1 + r.IntN(24)
			end := at.Add(mono.Dur(5e6 + size*500_000))
			t.Batches = append(t.Batches, Batch{GPU: g, Model: r.IntN(models), Start: at, End: end, Size: size})
			at = end.Add(mono.Dur(r.Int64N(3e6)))
		}
	}
	for i := range 600 {
		t.Requests = append(t.Requests, Request{mono.Time(i * 333_000), r.IntN(len(t.Batches))})
	}
	t.Drops = []mono.Time{50e6, 51e6, 120e6}
	return t
}
