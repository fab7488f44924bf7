package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/transport/mono"
)

// pauseJob is one run in which the scheduler stands still now and then, with margins
// as in the live engine.
type pauseJob struct {
	System        string
	Workload      Workload
	Length, Every float64 // of the pauses, ms
	Rate          float64
	Seed          uint64
	Seconds       float64 // counted
	Warmup        float64 // before them
}

// pauseFound counts requests.
type pauseFound struct {
	Arrived, Bad int64
	Hopeless     int64 // nobody could have served them
}

func (f *pauseFound) bad() float64      { return badShare(f.Bad, f.Arrived) }
func (f *pauseFound) hopeless() float64 { return badShare(f.Hopeless, f.Arrived) }

func (j pauseJob) run(stop func() bool) (pauseFound, error) {
	sys, err := SystemOf(j.System)
	if err != nil {
		return pauseFound{}, err
	}
	c, err := j.Workload.config(sys, j.Rate, j.Seed, j.Seconds, j.Warmup)
	if err != nil {
		return pauseFound{}, err
	}
	c.Pauses = []sim.Pause{{Part: sim.SchedulerPart, Length: mono.FromMillis(j.Length), Every: mono.FromMillis(j.Every)}}
	c.Margins = true
	r, err := sim.Run(c, stop)
	if err != nil {
		return pauseFound{}, fmt.Errorf("%s at %g r/s: %w", j.System, j.Rate, err)
	}
	return pauseFound{Arrived: r.All.Arrived, Bad: r.All.Bad(), Hopeless: r.Hopeless}, nil
}

// pausedWorkload is a workload whose scheduler stands still now and then.
type pausedWorkload struct {
	name string
	Workload
}

func pausedWorkloads() []pausedWorkload {
	one := singles()[0]
	slow := Workload{GPUs: 1, Models: []Model{{Name: "slow", Alpha: 10, Beta: 50, SLO: 400}}}
	return []pausedWorkload{
		{"A100 zoo, 64 GPUs", Workload{Models: ModelsOf(zoo.A100()), GPUs: 64}},
		{one.name() + ", 8 GPUs", one.workload},
		{"slow model, 1 GPU", slow},
		{"four models, 1 GPU", fourOnOne()},
	}
}

// pausing: what is lost by Symphony and by its whole deferral where the scheduler
// stands still, below their peaks: the better one's without pauses.
func pausing(s *Session) error {
	list, systems := pausedWorkloads(), []string{Symphony, SymphonyDefer, EagerTarget}
	pauses := [][2]float64{{5, 200}, {20, 2000}}
	parts := []float64{0.5, 0.9}
	peaks, err := s.pausePeaks(list)
	if err != nil {
		return err
	}
	var jobs []Job[pauseFound]
	seeds := s.seeds(3)
	for i, w := range list {
		for _, p := range pauses {
			for _, part := range parts {
				for _, system := range systems {
					for _, seed := range seeds {
						j := pauseJob{System: system, Workload: w.Workload, Length: p[0], Every: p[1], Rate: part * peaks[i], Seed: seed, Warmup: 20}
						j.Seconds = Pick(s, 10, min(200, max(40, 20_000/j.Rate)))
						jobs = append(jobs, Job[pauseFound]{Kind: "pause", About: j, Weight: (j.Rate + tuningCost) * (j.Seconds + j.Warmup), Run: j.run})
					}
				}
			}
		}
	}
	found, err := Each(s, jobs)
	if err != nil {
		return err
	}
	s.Setting("runs: %s, longer where requests are few, after 20 s that do not count, %s; margins measured as in the live engine", Pick(s, "10 s", "40 s"), seedsText(seeds))
	var rows [][]string
	for i, w := range list {
		for _, p := range pauses {
			for _, part := range parts {
				what := fmt.Sprintf("%s, %g ms every %g ms, %g of the peak", w.name, p[0], p[1], part)
				of := make([][]pauseFound, len(systems))
				for k, system := range systems {
					of[k], found = found[:len(seeds)], found[len(seeds):]
					rows = append(rows, []string{w.name, fmt.Sprintf("%g ms every %g ms", p[0], p[1]), fmt.Sprintf("%g: %s r/s", part, Rate(part*peaks[i])), system,
						badText(rates(of[k], (*pauseFound).bad)), badText(rates(of[k], (*pauseFound).hopeless))})
				}
				s.pauseClaims(what, part, of)
			}
		}
	}
	s.Note("Hopeless are arrivals that no scheduler could serve: it heard of them too late. They are among the bad.")
	return s.Table("pauses", []string{"workload", "pauses", "of the peak", "system", "bad", "hopeless"}, rows)
}

// pausePeaks are the better goodputs of both rules, without pauses.
func (s *Session) pausePeaks(list []pausedWorkload) ([]float64, error) {
	var jobs []GoodputJob
	for _, w := range list {
		for _, system := range []string{Symphony, SymphonyDefer} {
			j := s.Search(system, w.Workload)
			j.Grouped, j.Warmup, j.Seeds, j.Tolerance = true, 20, j.Seeds[:1], 0.02
			jobs = append(jobs, j)
		}
	}
	found, err := s.Goodputs(jobs)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(list))
	for i := range list {
		out[i] = max(found[2*i].Rate, found[2*i+1].Rate)
	}
	return out, nil
}

// pauseClaims: found are ours, the whole deferral's and the eager one's, by seed. At half
// of the peak only the hopeless should be bad. What comes during a long pause is there at once when it
// ends, and more of it is due soon than GPUs can start: that is no less than not worse.
func (s *Session) pauseClaims(what string, part float64, found [][]pauseFound) {
	if part > 0.5 {
		claimNotWorse(s, what+": bad", rates(found[0], (*pauseFound).bad), rates(found[1], (*pauseFound).bad))
		return
	}
	var bad, hopeless [3]int64 // by system
	for k := range bad {
		for _, f := range found[k] {
			bad[k], hopeless[k] = bad[k]+f.Bad, hopeless[k]+f.Hopeless
		}
	}
	c := Claim{What: what + ": bad beyond the hopeless", Paper: "0", Ours: fmt.Sprintf("%d requests bad, %d of them hopeless", bad[0], hopeless[0]), Holds: bad[0] <= hopeless[0]}
	if !c.Holds {
		c.Why = fmt.Sprintf("%s: %d, %s: %d", SymphonyDefer, bad[1], EagerTarget, bad[2])
		if bad[0] <= bad[1] {
			c.Short = Weaker
		}
	}
	s.Claim(c)
}
