package draws

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// chances is a policy whose runs pass by chance: half of them at the place middle, fewer above,
// more below; the turn is some width wide. A rate that is tried again has the same verdict.
type chances struct {
	middle, width float64
	rng           *rand.Rand
	seen          map[int]bool
}

func (c *chances) try(place int) (bool, error) {
	if _, ok := c.seen[place]; !ok {
		p := 0.5 * math.Erfc((float64(place)-c.middle)/c.width/math.Sqrt2)
		c.seen[place] = c.rng.Float64() < p
	}
	return c.seen[place], nil
}

// moments of what a crossing found, in places away from the middle.
type moments struct{ n, sum, squares, tries float64 }

func (m *moments) add(v float64, tries int) {
	m.n, m.sum, m.squares, m.tries = m.n+1, m.sum+v, m.squares+v*v, m.tries+float64(tries)
}

func (m *moments) mean() float64      { return m.sum / m.n }
func (m *moments) deviation() float64 { return math.Sqrt(m.squares/m.n - m.mean()*m.mean()) }

// TestCrossing: the turn that is found is the middle one on average, wherever the search begins,
// and varies less than what a bisection finds. (The log tells what it costs.)
func TestCrossing(t *testing.T) {
	const rounds = 4000
	for _, width := range []float64{0.4, 1, 2, 4} {
		for _, settled := range []int{settledFirst, settledAgain} {
			bisected := bisection(width, rounds)
			for _, begin := range []int{-20, 0, 20} {
				var m moments
				for i := range rounds {
					rng := rand.New(rand.NewPCG(uint64(i), uint64(begin)))
					c := chances{middle: float64(begin) + 10*rng.Float64(), width: width, rng: rng, seen: map[int]bool{}}
					found, err := (&crossing{try: c.try, settled: settled, least: -1000, near: -beyond}).find()
					if err != nil {
						t.Fatal(err)
					}
					m.add(float64(found.place)+0.5-c.middle, len(c.seen))
				}
				text := fmt.Sprintf("a turn of width %g about place %d, %d settled: %+.2f places off, deviation %.2f (bisection: %.2f), %.1f tries",
					width, begin, settled, m.mean(), m.deviation(), bisected.deviation(), m.tries/m.n)
				t.Log(text)
				if math.Abs(m.mean()) > 0.05+0.05*width {
					t.Error(text, ": biased")
				}
				if width >= 2 && m.deviation() > 0.85*bisected.deviation() {
					t.Error(text, ": no better than a bisection")
				}
			}
		}
	}
}

// bisection is what a search finds that takes each verdict for certain, from near the middle.
func bisection(width float64, rounds int) *moments {
	var m moments
	for i := range rounds {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		c := chances{middle: 10 * rng.Float64(), width: width, rng: rng, seen: map[int]bool{}}
		s := searched{crossing: &crossing{try: c.try, least: -1000, near: -beyond}, turn: turn{low: beyond, high: -beyond}, pass: map[int]bool{}}
		if rough, err := s.bracket(); rough || err != nil {
			panic(fmt.Sprint(rough, err))
		}
		place := 0
		for !s.pass[place] || s.pass[place+1] || !s.knows(place+1) {
			if place = -place; place >= 0 {
				place++
			}
		}
		m.add(float64(place)+0.5-c.middle, len(c.seen))
	}
	return &m
}

func (s *searched) knows(place int) bool { _, ok := s.pass[place]; return ok }

// of is a policy with the verdicts of a text: + passes. Below it all passes, above nothing.
func of(text string, first int, tried *[]int) func(int) (bool, error) {
	return func(place int) (bool, error) {
		*tried = append(*tried, place)
		switch i := place - first; {
		case i < 0:
			return true, nil
		case i >= len(text):
			return false, nil
		default:
			return text[i] == '+', nil
		}
	}
}

// TestCrossingPlaces: passes among the failures count, failures among the passes count, one each; no place is tried twice.
func TestCrossingPlaces(t *testing.T) {
	for _, c := range []struct {
		text  string
		first int
		want  turn
	}{
		{"", 0, turn{place: -1, low: 0, high: -1}},
		{"", 3, turn{place: 2, low: 3, high: 2}},
		{"", -40, turn{place: -41, low: -40, high: -41}},
		{"", 60, turn{place: 59, low: 60, high: 59}},
		{"-+", 0, turn{place: 0, low: 0, high: 1}},
		{"-+-+", 0, turn{place: 1, low: 0, high: 3}},
		{"--+", 0, turn{place: -1, low: 0, high: -1}}, // two failures are as many as it asks for
		{"-++++", 0, turn{place: 3, low: 0, high: 4}},
		{"-+++-+", -4, turn{place: -1, low: -4, high: 1}},
	} {
		var tried []int
		got, err := (&crossing{try: of(c.text, c.first, &tried), settled: 2, least: -200, near: -beyond}).find()
		if err != nil || got != c.want {
			t.Errorf("%q from %d on: %+v, %v, want %+v", c.text, c.first, got, err, c.want)
		}
		seen := map[int]bool{}
		for _, place := range tried {
			if seen[place] {
				t.Errorf("%q from %d on: place %d was tried twice: %v", c.text, c.first, place, tried)
			}
			seen[place] = true
		}
	}
}

// TestCrossingEnds: with nothing that passes, far from the best, and on an error.
func TestCrossingEnds(t *testing.T) {
	var tried []int
	got, err := (&crossing{try: of("", -100, &tried), settled: 2, least: -30, near: -beyond}).find()
	if err != nil || got.place != -31 || got.low != -30 || tried[len(tried)-1] != -30 {
		t.Errorf("nothing passes: %+v, %v, tried %v", got, err, tried)
	}
	tried = nil
	got, err = (&crossing{try: of("", 2, &tried), settled: 2, least: 10, near: 20}).find()
	if err != nil || got.place >= 10 || len(tried) != 3 {
		t.Errorf("the best is far above: %+v, %v, tried %v", got, err, tried)
	}
	tried = nil
	got, err = (&crossing{try: of("", -11, &tried), settled: 2, least: -100, near: -6}).find()
	if err != nil || got.place != -13 || len(tried) != 5 {
		t.Errorf("far from the best: %+v, %v, tried %v: two failures up to place -6, and one that passes, are enough", got, err, tried)
	}
	tried = nil
	got, err = (&crossing{try: of("", -5, &tried), settled: 2, least: -100, near: -6}).find()
	if err != nil || got.place != -6 || len(tried) < 6 {
		t.Errorf("near the best: %+v, %v, tried %v", got, err, tried)
	}
	bad := errors.New("bad")
	if _, err := (&crossing{try: func(int) (bool, error) { return false, bad }, settled: 2, near: -beyond}).find(); !errors.Is(err, bad) {
		t.Error(err)
	}
}
