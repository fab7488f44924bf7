package server

import "testing"

// Rates of more models than one look tells of are told in turns: all of them before any a second
// time, and those of which nothing is new are passed over.
func TestRatesInTurns(t *testing.T) {
	const n = 2*ratesMost + 100
	s := &Server{models: make([]served, n)}
	p := &pool{}
	for i := range s.models {
		s.models[i] = served{pool: p, count: &modelCount{}}
	}
	s.models[7].count, s.models[8].pool = nil, nil
	told := make([]int, n)
	for look := range 3 {
		for i := range s.models {
			if m := &s.models[i]; m.count != nil && i != 9 {
				m.count.fresh = m.count.fresh || look == 0 || told[i] == 0
			}
		}
		s.takeTurns()
		for _, id := range s.controllers.fresh {
			told[id]++
		}
		if most := len(s.controllers.fresh); most > ratesMost || look < 2 && most < ratesMost {
			t.Errorf("look %d tells of %d models", look, most)
		}
	}
	for i, times := range told {
		want := 1
		if i == 7 || i == 8 || i == 9 {
			want = 0
		}
		if times != want {
			t.Fatalf("model %d was told of %d times, want %d", i, times, want)
		}
	}
}
