package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/zoo"
)

// surge is a load that rises at once, again and again, or comes in bursts.
type surge struct {
	name    string
	models  []Model
	gpus    int
	rate    float64 // requests/s before the surge, all models
	height  float64 // times the rate; 0: the rate does not change
	length  float64 // s
	surges  int     // in a run, one every surgePeriod; the first one finds a cluster without a past and does not count
	shape   float64 // of Gamma arrivals; 0: Poisson
	against string  // what the rate is
}

func surgesAll() []surge {
	a100 := ModelsOf(zoo.A100())
	gamma := []Model{resnetLike(25, 20)}
	return []surge{
		{"A100 zoo, 64 GPUs, x3 for 10 s", a100, 64, 5500, 3, 10, 6, 0, "5,500 to 16,500 r/s"},
		{"four models, one GPU, x3 for 10 s", fourOnOne().Models, 1, 60, 3, 10, 16, 0, "60 to 180 r/s"},
		{"A100 zoo, 64 GPUs, x10 for 1 s", a100, 64, 1800, 10, 1, 6, 0, "1,800 to 18,000 r/s"},
		{"20 x ResNet50, 32 GPUs, Gamma 0.05, half of the peak", gamma, 32, 9400, 0, 0, 6, 0.05, "9,400 r/s"},
		{"20 x ResNet50, 32 GPUs, Gamma 0.05, near the peak", gamma, 32, 17000, 0, 0, 6, 0.05, "17,000 r/s"},
	}
}

const (
	surgePeriod = 30.0 // s
	// Around a surge: a second before it and two from it on.
	surgeBefore, surgeAfter = 1, 2
)

// surgeJob is one run.
type surgeJob struct {
	changingJob
	Surges int // that count, and the first one, which does not
}

// surgeFound counts requests.
type surgeFound struct {
	Arrived, Bad             int64 // from the second surge on
	AroundArrived, AroundBad int64
}

func (f *surgeFound) all() float64    { return badShare(f.Bad, f.Arrived) }
func (f *surgeFound) around() float64 { return badShare(f.AroundBad, f.AroundArrived) }

func badShare(bad, arrived int64) float64 { return float64(bad) / float64(max(1, arrived)) }

func surgeSystems() []string { return []string{Symphony, SymphonyDefer, Eager, EagerTarget} }

// surges: what is lost where the load rises at once, and in bursts, by Symphony and
// by its whole deferral; the eager ones stand beside them.
func surges(s *Session) error {
	list, systems, seeds := surgesAll(), surgeSystems(), s.seeds(3)
	var jobs []Job[surgeFound]
	for _, u := range list {
		for _, system := range systems {
			for _, seed := range seeds {
				j := u.job(system, seed, Pick(s, 2, u.surges))
				jobs = append(jobs, Job[surgeFound]{Kind: "surge", About: j, Weight: (u.rate + tuningCost) * j.Seconds, Run: j.run})
			}
		}
	}
	found, err := Each(s, jobs)
	if err != nil {
		return err
	}
	s.Setting("a surge every %g s, %s; the first %g s do not count; around a surge is a second before it and two from it on", surgePeriod, seedsText(seeds), surgePeriod)
	var rows [][]string
	for i, u := range list {
		of := make([][]surgeFound, len(systems)) // [system][seed]
		for k, system := range systems {
			of[k] = found[(i*len(systems)+k)*len(seeds):][:len(seeds)]
			all, around := rates(of[k], (*surgeFound).all), rates(of[k], (*surgeFound).around)
			row := []string{u.name, u.against, system, "-", badText(all), fmt.Sprint(of[k][0].Arrived)}
			if u.height > 0 {
				row[3] = badText(around)
			}
			rows = append(rows, row)
		}
		if u.height > 0 {
			claimNotWorse(s, u.name+": bad in the three seconds around a surge", rates(of[0], (*surgeFound).around), rates(of[1], (*surgeFound).around))
		}
		claimNotWorse(s, u.name+": bad in all", rates(of[0], (*surgeFound).all), rates(of[1], (*surgeFound).all))
	}
	s.Note("%q is the rule that always spends all of the deferral.", SymphonyDefer)
	return s.Table("surges", []string{"workload", "load", "system", "bad around", "bad in all", "requests of a run"}, rows)
}

// job is a run with so many surges. Bursts begin each period.
func (u *surge) job(system string, seed uint64, surges int) surgeJob {
	j := surgeJob{changingJob{System: system, GPUs: u.gpus, Seconds: surgePeriod * float64(surges), Epoch: 1, Seed: seed, Shape: u.shape}, surges}
	if u.shape > 0 {
		j.Arrivals = "gamma"
	}
	n := 0
	for i := range u.models {
		n += u.models[i].count()
	}
	for _, m := range u.models {
		count := m.count()
		m.Count = 0
		for range count {
			c := changingModel{Model: m, Rate: u.rate / float64(n)}
			if u.height > 0 {
				c.Profile = fmt.Sprintf("burst:period=%gs,length=%gs,height=%g", surgePeriod, u.length, u.height)
			}
			j.Models = append(j.Models, c)
		}
	}
	return j
}

func (j surgeJob) run(stop func() bool) (surgeFound, error) {
	var f surgeFound
	e, err := j.changingJob.run(stop)
	for k := range e.Arrived {
		arrived, bad := int64(0), int64(0)
		for m := range e.Arrived[k] {
			arrived += e.Arrived[k][m]
			bad += e.Arrived[k][m] - e.Served[k][m]
		}
		if k < surgePeriod-surgeBefore {
			continue
		}
		if at := k % surgePeriod; at < surgeAfter || at >= surgePeriod-surgeBefore {
			f.AroundArrived, f.AroundBad = f.AroundArrived+arrived, f.AroundBad+bad
		}
		if k >= surgePeriod {
			f.Arrived, f.Bad = f.Arrived+arrived, f.Bad+bad
		}
	}
	return f, err
}

func rates[T any](found []T, of func(*T) float64) []float64 {
	var out []float64
	for i := range found {
		out = append(out, of(&found[i]))
	}
	return out
}

func badText(rates []float64) string {
	i := intervalOf(rates)
	if i.seeds < 2 {
		return Number(100*i.mean, 3) + " %"
	}
	return fmt.Sprintf("%s +- %s %%", Number(100*i.mean, 3), Number(100*i.half, 3))
}

// claimNotWorse is that ours loses no more than the whole deferral. A draw is a mean
// above, whose difference, seed by seed, has an interval with 0 in it.
func claimNotWorse(s *Session, what string, ours, theirs []float64) {
	a, b := intervalOf(ours), intervalOf(theirs)
	c := Claim{What: what, Paper: "not above the whole deferral's", Ours: fmt.Sprintf("%s; %s", badText(ours), badText(theirs)), Holds: a.mean <= b.mean}
	diff := make([]float64, len(ours))
	for i := range diff {
		diff[i] = ours[i] - theirs[i]
	}
	if d := intervalOf(diff); !c.Holds && d.seeds > 1 && d.mean <= d.half {
		c.Short, c.Why = Draw, overlap
	}
	s.Claim(c)
}
