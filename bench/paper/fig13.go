package paper

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/bench/plot"
)

// fig13, the right half: goodput against the number of GPUs.
func fig13(s *Session) error {
	gpus := Pick(s, []int{8, 16, 32, 64, 128, 256}, []int{8, 16, 32, 64, 128, 256, 512, 1024})
	systems := fourSystems()
	var jobs []GoodputJob
	for _, system := range systems {
		for _, n := range gpus {
			j := s.Search(system, resnets(20, n))
			j.Grouped = true
			if n > 64 { // as many requests as 64 GPUs see, and 3 s at least
				j.Seeds, j.Seconds = j.Seeds[:1], max(3, j.Seconds*64/float64(n))
			}
			jobs = append(jobs, j)
		}
	}
	all, err := s.Goodputs(jobs)
	if err != nil {
		return err
	}
	lines := plot.Lines{X: plot.Axis{Label: "GPUs", Log: true}, Y: plot.Axis{Label: "goodput (requests/s)", Log: true}, Markers: true}
	var rows [][]string
	perGPU := map[string][]float64{}
	rates := map[string][]interval{}
	for k, system := range systems {
		series := plot.Series{Name: system}
		for i, n := range gpus {
			r := all[k*len(gpus)+i]
			series.X, series.Y = append(series.X, float64(n)), append(series.Y, max(1, r.Rate))
			perGPU[system] = append(perGPU[system], r.Rate/float64(n))
			rates[system] = append(rates[system], r.interval())
			w := resnets(20, n)
			bounds, err := BoundCells(&w)
			if err != nil {
				return err
			}
			rows = append(rows, append([]string{system, fmt.Sprint(n), Number(r.Rate, 0), Number(r.Rate/float64(n), 1)}, bounds...))
		}
		lines.Series = append(lines.Series, series)
	}
	each := plot.Lines{X: lines.X, Y: plot.Axis{Label: "goodput a GPU (requests/s)"}, Markers: true}
	for _, system := range systems {
		each.Series = append(each.Series, plot.Series{Name: system, X: lines.Series[0].X, Y: perGPU[system]})
	}
	if err := s.PlotSized("fig13", plot.Size{W: 8, H: 3.8}, plot.Grid{Cols: 2, Shared: true, Panels: []plot.Picture{lines, each}}); err != nil {
		return err
	}
	ours := perGPU[Symphony]
	first, last := ours[0], ours[len(ours)-1]
	s.Claim(Claim{What: fmt.Sprintf("Symphony's goodput grows linearly from %d to %d GPUs", gpus[0], gpus[len(gpus)-1]), Paper: "linear",
		Ours: fmt.Sprintf("%.0f r/s a GPU at first, %.0f at last", first, last), Ratio: last / first, Holds: last >= 0.95*first})
	behind := ""
	var verdicts []Verdict
	for i, n := range gpus {
		for _, system := range systems[1:] {
			v := rates[Symphony][i].against(rates[system][i])
			if verdicts = append(verdicts, v); v != yes {
				behind += fmt.Sprintf("; on %d GPUs %s has %s r/s, Symphony %s", n, system, rates[system][i].rate(), rates[Symphony][i].rate())
			}
		}
	}
	c := Claim{What: "Symphony's goodput is the highest on any number of GPUs", Paper: "yes", Ours: strings.TrimPrefix(cmp.Or(behind, "; yes"), "; ")}
	c.judge(worst(verdicts...))
	c.Why = drawn(c.Short, "")
	s.Claim(c)
	s.Claim(Claim{What: "Clockwork stops growing: its locks limit it", Paper: "yes", Ours: fmt.Sprintf("%.0f r/s a GPU at first, %.0f at last", perGPU[Clockwork][0], perGPU[Clockwork][len(gpus)-1]), Holds: false,
		Why: "a simulated scheduler has no locks and no computing time; only the schedules are compared here"})
	s.Note("The paper plots goodput only; the right panel is there because a line on two logarithmic axes hides much. 20 models like ResNet50 on a 1080Ti, SLO 100 ms, equally popular. The left half of the figure is about the scheduler's own speed: `bin/symphony bench scheduler` measures that.")
	return s.Table("fig13", append([]string{"system", "GPUs", "goodput r/s", "r/s a GPU"}, BoundHeader()...), rows)
}
