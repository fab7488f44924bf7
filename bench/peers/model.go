package peers

import "math"

// batchMax is the largest batch of every system, as long as nothing else bounds it.
const batchMax = 64

// Model is an emulated model: a batch of b takes Alpha*b + Beta. All in ms.
type Model struct {
	Name  string
	Alpha float64
	Beta  float64
	SLO   float64
}

// Largest is the largest batch that takes at most longest ms, at least 1.
func (m Model) Largest(longest float64) int {
	if longest <= 0 {
		return batchMax
	}
	return min(batchMax, max(1, int(math.Floor((longest-m.Beta)/m.Alpha+1e-9))))
}

// Case is what is asked of every system: models on one device, and the load.
type Case struct {
	Name    string
	Title   string
	Models  []Model
	Rates   []float64 // requests/s over all models
	Bursty  []float64 // rates of the arrivals other than Poisson
	Sweep   []float64 // rates of the sweep
	Longest []float64 // ms of the longest batch that the sweep tries; 0: batchMax
}

// Cases are the two questions: one model, and four that share a device.
func Cases() []Case {
	return []Case{
		{
			Name: "one", Title: "One model, l(b) = 0.5 b + 5 ms, SLO 50 ms, one device",
			Models:  []Model{{"m", 0.5, 5, 50}},
			Rates:   []float64{100, 400, 1000, 1200, 1400, 1600, 1800, 3000},
			Bursty:  []float64{100, 400, 1000, 1400, 1800},
			Sweep:   []float64{100, 1000, 1400, 3000},
			Longest: []float64{25, 18, 32, 0},
		},
		{
			Name: "four", Title: "Four models on one device, equal rates; l(b), SLO in ms: a 0.3 b + 2, 20; b 0.5 b + 5, 50; c 1.0 b + 8, 80; d 0.2 b + 1, 12",
			Models:  []Model{{"a", 0.3, 2, 20}, {"b", 0.5, 5, 50}, {"c", 1, 8, 80}, {"d", 0.2, 1, 12}},
			Rates:   []float64{100, 200, 300, 600, 900},
			Bursty:  []float64{100, 300, 600},
			Sweep:   []float64{100, 300, 900},
			Longest: []float64{12, 9, 18, 25},
		},
	}
}
