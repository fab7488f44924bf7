package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/plot"
)

// fig14: goodput against the network's delay, 20 models on 32 GPUs (section
// 5.6). Each message takes the same time: a request's record, an order, an
// answer; the scheduler plans with just that bound (d_ctrl, d_data = 0), as the
// paper's plans with a high percentile. So three delays come off each SLO, and
// a curve ends where the rest is too short to run a request alone.
func fig14(s *Session) error {
	slos := []float64{20, 25, 50, 100}
	ranges := []struct {
		name, title string
		us          []float64
		unit        float64 // us
		axis        string
	}{
		{"rdma", "RDMA range", Pick(s, []float64{0, 10, 24, 33, 50}, []float64{0, 5, 10, 15, 20, 24, 30, 33, 40, 50}), 1, "network latency (us)"},
		{"tcp", "TCP range", Pick(s, []float64{0, 1000, 2000, 3000, 4500, 6000, 9000, 12000, 18000, 24000, 30000, 36000}, []float64{0, 500, 1000, 2000, 3000, 4000, 6000, 8000, 10000, 12000, 15000, 18000, 21000, 24000, 27000, 30000, 33000, 36000}), 1000, "network latency (ms)"},
	}
	var jobs []GoodputJob
	for _, r := range ranges {
		for _, slo := range slos {
			for _, us := range reachable(slo, r.us) {
				jobs = append(jobs, GoodputJob{System: Symphony, Workload: delayed(slo, us), Grouped: true,
					Seeds: s.seeds(3), Seconds: Pick(s, 3.0, 15.0), Tolerance: Pick(s, 0.01, 0.002)})
			}
		}
	}
	found, err := s.Goodputs(jobs)
	if err != nil {
		return err
	}
	var panels []plot.Picture
	var rows [][]string
	for _, r := range ranges {
		var series []plot.Series
		var lines [][]interval
		for _, slo := range slos {
			line := plot.Series{Name: "SLO " + Number(slo, 0) + " ms"}
			var shares []interval
			for i, us := range reachable(slo, r.us) {
				share := ratios(found[i].Rates, found[0].Rates)
				shares = append(shares, share)
				line.X, line.Y = append(line.X, us/r.unit), append(line.Y, 100*share.mean)
				rows = append(rows, []string{r.name, Number(slo, 0), Number(us, 0), Rate(found[i].Rate), Number(share.mean, 3)})
			}
			lines = append(lines, shares)
			found = found[len(line.X):]
			series = append(series, line)
		}
		s.fig14Claims(r.name, series, lines)
		panels = append(panels, plot.Lines{Title: r.title, X: plot.Axis{Label: r.axis}, Series: series, Markers: true,
			Y: plot.Axis{Label: "goodput (% of that without delay)", Max: 105}})
	}
	s.Note("Each message is delayed by the same time d, and the scheduler plans with just that: d_ctrl = d, d_data = 0. The delay counts three times: a request's way to the scheduler, an order's to the GPU, the answer's back. A curve ends where SLO - 3 d < l(1).")
	if err := s.Table("fig14", []string{"range", "SLO (ms)", "latency (us)", "goodput (r/s)", "relative"}, rows); err != nil {
		return err
	}
	return s.PlotSized("fig14", plot.Size{W: 9, H: 3.6}, plot.Grid{Title: "20 models like ResNet50 on 32 GPUs", Cols: 2, Shared: true, Panels: panels})
}

func delayed(slo, us float64) Workload {
	w := Workload{GPUs: 32, Models: []Model{resnetLike(slo, 20)}}
	if us > 0 {
		w.Network = Network{Ctrl: []float64{us}, BoundCtrl: us}
	}
	return w
}

// reachable are the delays with which a request can be answered in time.
func reachable(slo float64, us []float64) []float64 {
	m := resnetLike(slo, 1)
	n := 0
	for n < len(us) && m.Alpha+m.Beta+3*us[n]/1000 <= slo {
		n++
	}
	return us[:n]
}

// lossOff is how far from the paper's 70 % a greatest loss counts as that.
const lossOff = 5.0

// fig14Claims: lines are goodputs by SLO, from the tightest on, in shares of
// those without delay.
func (s *Session) fig14Claims(name string, series []plot.Series, lines [][]interval) {
	if name == "rdma" {
		for i, l := range lines {
			end := l[len(l)-1]
			s.Claim(Claim{What: series[i].Name + ", 50 us against none", Paper: "only marginally less", Ours: Percent(end.mean), Holds: end.mean >= 0.97,
				Why: "marginally: at most 3 %"})
		}
		return
	}
	least := 1.0
	forth, back := 0, 0 // pairs of SLOs at one delay, in the paper's order and against it
	for i, l := range lines {
		for k, y := range l {
			least = min(least, y.mean)
			if i == 0 || k >= len(lines[i-1]) {
				continue
			}
			switch lines[i-1][k].against(y) {
			case no:
				forth++
			case yes:
				back++
			}
		}
	}
	loss := 100 * (1 - least)
	c := Claim{What: "greatest loss within the TCP range", Paper: "70 %", Ours: Number(loss, 0) + " %", Ratio: loss / 70, Holds: loss >= 70-lossOff && loss <= 70+lossOff}
	switch {
	case loss < 70-lossOff:
		c.Short = Weaker
	case loss > 70+lossOff:
		c.Why = "curves go on until nothing fits; the paper does not say how many of a message's ways its delay counts for, here it is three"
	}
	s.Claim(c)
	c = Claim{What: "the tighter the SLO, the more a delay costs", Paper: "yes", Ours: fmt.Sprintf("in %d pairs of SLOs at one delay; the other way round in %d", forth, back)}
	switch {
	case back == 0 && forth > 0:
		c.judge(yes)
	case back == 0:
		c.judge(Draw)
	}
	c.Why = "pairs whose 95 % intervals overlap say nothing"
	s.Claim(c)
}
