package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/transport/mono"
)

// scaling is what more model loops carry.
type scaling struct {
	Processors int            `json:"processors"`
	Points     []scalingPoint `json:"points"`
}

// scalingPoint is a number of model loops.
type scalingPoint struct {
	Loops   int     `json:"loops"`
	Rate    float64 `json:"rate_rps"`
	Seconds float64 `json:"seconds"`
}

// coresLeast is what eight model loops, a rank loop and what asks them need.
const coresLeast = 16

// measureScaling searches the rate of 1 to 8 model loops; the ends first, lest time run out.
func measureScaling(ctx context.Context, b *bench) (section, error) {
	if b.m.Processors < coresLeast {
		return nil, skip("too few cores: %d, and %d are needed for 1 to 8 model loops", b.m.Processors, coresLeast)
	}
	if b.m.Scaling == nil {
		return nil, errors.New("nothing measures the scheduler here")
	}
	s := &scaling{Processors: b.m.Processors}
	order := []int{1, 8, 4, 2, 6, 3}
	var errs []error
	for i, loops := range order {
		span := leftOf(ctx) / mono.Dur(len(order)-i)
		if ctx.Err() != nil || i > 1 && span < scalingLeast {
			break
		}
		begin := mono.Now()
		rate, err := b.m.Scaling(ctx, loops, span)
		if err != nil {
			errs = append(errs, fmt.Errorf("%d model loops: %w", loops, err))
			continue
		}
		s.add(scalingPoint{loops, rate, mono.Now().Sub(begin).Seconds()})
		b.tell("  %d model loops: %s requests/s\n", loops, thousands(rate))
	}
	if len(s.Points) < 2 {
		errs = append(errs, ctx.Err())
	}
	return s, errors.Join(errs...)
}

// scalingLeast is what a search takes at least.
const scalingLeast = 6 * mono.Second

// add keeps them in order.
func (s *scaling) add(p scalingPoint) {
	i := 0
	for i < len(s.Points) && s.Points[i].Loops < p.Loops {
		i++
	}
	s.Points = append(s.Points, scalingPoint{})
	copy(s.Points[i+1:], s.Points[i:])
	s.Points[i] = p
}

// factor is how much more than one loop it carries.
func (s *scaling) factor(p scalingPoint) float64 {
	if len(s.Points) == 0 || s.Points[0].Loops != 1 || s.Points[0].Rate == 0 {
		return 0
	}
	return p.Rate / s.Points[0].Rate
}

func (s *scaling) summary() string {
	if len(s.Points) == 0 {
		return "nothing was measured"
	}
	last := s.Points[len(s.Points)-1]
	return fmt.Sprintf("%d model loops carry %s requests/s, %.1f times one", last.Loops, thousands(last.Rate), s.factor(last))
}

func (s *scaling) table() [][]string {
	t := [][]string{{"loops", "rate_rps", "times_one"}}
	for _, p := range s.Points {
		t = append(t, []string{fmt.Sprint(p.Loops), precise(p.Rate), precise(s.factor(p))})
	}
	return t
}

func (s *scaling) pictures() []named {
	if len(s.Points) < 2 {
		return nil
	}
	measured, ideal := plot.Series{Name: "measured"}, plot.Series{Name: "proportional to the first", Dashed: true}
	for _, p := range s.Points {
		measured.X, measured.Y = append(measured.X, float64(p.Loops)), append(measured.Y, p.Rate/1e6)
		ideal.X, ideal.Y = append(ideal.X, float64(p.Loops)), append(ideal.Y, s.Points[0].Rate/1e6*float64(p.Loops)/float64(s.Points[0].Loops))
	}
	return []named{{"scaling", "Model loops", plot.Size{W: 6, H: 3.6}, plot.Lines{X: plot.Axis{Label: "model loops"}, Y: plot.Axis{Label: "million requests/s"}, Markers: true,
		Series: []plot.Series{measured, ideal}}}}
}

func (s *scaling) text() string {
	t := grid{{"model loops", "requests/s", "times one loop", "s it took"}}
	for _, p := range s.Points {
		t = append(t, []string{fmt.Sprint(p.Loops), thousands(p.Rate), fmt.Sprintf("%.2f", s.factor(p)), fmt.Sprintf("%.0f", p.Seconds)})
	}
	return fmt.Sprintf("`symphony bench scheduler --loops N` with emulated GPUs, the highest rate with a bad rate below 1 %%, on %d processors.\n\n%s", s.Processors, t)
}
