package controlcmd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// Plan is `symphony plan`.
type Plan struct {
	Show    planShowCmd    `cmd:"" help:"Show the plan in force: sub-clusters with their GPUs, needs and models; who leads; what is away."`
	Diff    planDiffCmd    `cmd:"" help:"Make a plan now and show what it would change, without rolling it out."`
	Apply   planApplyCmd   `cmd:"" help:"Make a plan now and roll it out, also while epochs are paused; or roll out one of your own (--file)."`
	Pause   planPauseCmd   `cmd:"" help:"Until resume, make plans only when models are added, changed or removed. A roll-out that is under way goes on."`
	Resume  planResumeCmd  `cmd:"" help:"Make plans again; a plan of your own (apply --file) ends with it."`
	History planHistoryCmd `cmd:"" help:"Show the last plans and how their roll-outs ended."`
}

type planShowCmd struct {
	Flags  `embed:""`
	Models bool `help:"List each sub-cluster's models."`
}

// Run shows.
func (c planShowCmd) Run() error { return c.run(c.show) }

// shownPlan is what --json prints.
type shownPlan struct {
	State api.Status `json:"state"`
	Plan  api.Plan   `json:"plan"`
}

func (c planShowCmd) show(s *session) error {
	state, err := s.State(s.ctx)
	if err != nil {
		return err
	}
	p, err := s.Plan(s.ctx)
	if err != nil && !isLost(err) {
		return err
	}
	if err != nil { // the state says more than the error: the store is away
		p = state.Plan
	}
	return errors.Join(s.print(shownPlan{state, p}, func() {
		s.stateLines(&state)
		if p.Epoch == 0 {
			fmt.Fprintln(s.out, "no plan was made yet: all GPUs of a type are one sub-cluster")
			return
		}
		s.planTable(&p, c.Models)
	}), err)
}

// stateLines say who leads, and what does not work.
func (s *session) stateLines(st *api.Status) {
	leader := "nobody leads: no plans are made until one does"
	if st.Leader != nil {
		leader = st.Leader.Name + " leads"
	}
	if st.Leader != nil && !st.Leads { // which has no links to schedulers
		fmt.Fprintf(s.out, "%s (%s), and knows what is in service; this is %s, a spare\n", leader, cmp.Or(st.Leader.Address, "its address is not known"), st.Name)
	} else {
		fmt.Fprintf(s.out, "%s; %s, %s, %s in service\n", leader, cli.Count(len(st.Schedulers), "scheduler"), cli.Count(st.Backends, "backend"), cli.Count(st.GPUs, "GPU"))
	}
	if len(st.Lost) > 0 {
		fmt.Fprintf(s.out, "not linked: %s; what it serves goes on, and its models stay its\n", strings.Join(st.Lost, ", "))
	}
	if st.Store.Away {
		fmt.Fprintf(s.out, "the store %s is away since %s (%s): what is served goes on, changes wait\n", st.Store.Where, st.Store.Since.Local().Format(time.DateTime), st.Store.Error)
	}
	if st.Epochs.Paused {
		why := ""
		if st.Epochs.Why != "" {
			why = " (" + st.Epochs.Why + ")"
		}
		fmt.Fprintf(s.out, "epochs are paused since %s%s: symphony plan resume\n", st.Epochs.Since.Local().Format(time.DateTime), why)
	}
}

// planLine is a plan in a line.
func planLine(p *api.Plan) string {
	text := fmt.Sprintf("plan %d, %s", p.Epoch, p.State)
	if p.State == api.PlanRollsOut && p.Steps > 0 {
		text += fmt.Sprintf(" (%d of %d steps)", p.StepsDone, p.Steps)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return fmt.Sprintf("%s; made %s by %s (%s): %s, %s, %.1f needed, %s moved", text, p.At.Local().Format(time.DateTime), p.By, p.Cause, cli.Count(p.Models, "model"), cli.Count(p.GPUs, "GPU"), p.Need, cli.Count(p.Moves, "model"))
}

// planLines are those of all schedulers.
func (s *session) planLines(p *api.Plan) {
	for i := range p.Plans { // of several schedulers
		of := &p.Plans[i]
		lost := ""
		if slices.Contains(p.Lost, of.Scheduler) {
			lost = " (not linked)"
		}
		fmt.Fprintf(s.out, "%s%s: %s\n", of.Scheduler, lost, planLine(of))
	}
	if len(p.Plans) == 0 {
		fmt.Fprintln(s.out, planLine(p))
	}
}

func (s *session) planTable(p *api.Plan, models bool) {
	s.planLines(p)
	w := table(s.out)
	fmt.Fprintln(w, "SUB-CLUSTER\tDEVICE TYPE\tMODELS\tGPUS\tIN SERVICE\tNEEDED\tBUSY\tREQUESTS/S\tSCHEDULER")
	for _, c := range p.SubClusters {
		scheduler := c.Scheduler
		if scheduler == "" {
			scheduler = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.2f\t%.0f %%\t%.1f\t%s\n", c.Name, c.DeviceType, len(c.Models), c.GPUs, c.Seated, c.Need, 100*c.Busy, c.Rate, scheduler)
	}
	w.Flush()
	for i := range p.SubClusters {
		if c := &p.SubClusters[i]; c.Memory != nil {
			fmt.Fprintf(s.out, "%s: %s\n", atScheduler(c.Name, c.Scheduler), MemoryWords(c.Memory))
		}
	}
	if !models {
		return
	}
	for _, c := range p.SubClusters {
		fmt.Fprintf(s.out, "%s: %s\n", atScheduler(c.Name, c.Scheduler), strings.Join(c.Models, " "))
	}
}

// MemoryWords are what the GPUs of a sub-cluster hold whose models come and go.
func MemoryWords(m *api.Memory) string {
	return fmt.Sprintf("paged, %d of %d pages free; %.1f loads/s, %.1f evictions/s, loaders copy %.0f %% of the time", m.Free, m.Pages, m.Loads, m.Evictions, 100*m.Busy)
}

type planDiffCmd struct {
	Flags `embed:""`
}

// Run compares.
func (c planDiffCmd) Run() error { return c.run(c.diff) }

func (c planDiffCmd) diff(s *session) error {
	d, err := s.Diff(s.ctx)
	if err != nil {
		return err
	}
	return s.print(d, func() { s.diffTable(&d) })
}

// diffTable prints what a plan made now would change.
func (s *session) diffTable(d *api.Diff) {
	if len(d.Away) > 0 {
		fmt.Fprintf(s.out, "not linked, and not among it: %s\n", strings.Join(d.Away, ", "))
	}
	for _, why := range d.Kept {
		fmt.Fprintln(s.out, why)
	}
	switch changes := len(d.Moves)+len(d.Resizes)+len(d.GPUs) > 0; {
	case d.Reason != "":
		fmt.Fprintf(s.out, "no plan would be made: %s\n", d.Reason)
		return
	case !changes:
		fmt.Fprintf(s.out, "nothing would change: %.1f GPUs are needed\n", d.Then)
		return
	}
	against := fmt.Sprintf("against plan %d", d.Epoch)
	if d.Epoch == 0 {
		against = "the first plan"
	}
	fmt.Fprintf(s.out, "%s: moves %s (%d stay) and %s; %s of %s in all; GPUs needed %.1f -> %.1f\n",
		against, cli.Count(len(d.Moves), "model"), d.Stay, cli.Count(len(d.GPUs), "GPU"), cli.Count(d.Loads, "load"), size(d.Bytes), d.Need, d.Then)
	w := table(s.out)
	for _, r := range d.Resizes {
		fmt.Fprintf(w, "sub-cluster %s (%s)\t%d -> %s\tneeds %.2f\n", atScheduler(r.SubCluster, r.Scheduler), r.DeviceType, r.From, cli.Count(r.To, "GPU"), r.Need)
	}
	for _, m := range d.Moves {
		fmt.Fprintf(w, "model %s\t%s -> %s\t%s\n", m.Model, placeOr(m.From, "nowhere", m.Scheduler), placeOr(m.To, "nowhere", m.Scheduler), loads(m.Loads, m.Bytes))
	}
	for _, g := range d.GPUs {
		fmt.Fprintf(w, "GPU %s\t%s -> %s\t%s\n", g.GPU, placeOr(g.From, "free", g.Scheduler), placeOr(g.To, "free", g.Scheduler), loads(g.Loads, g.Bytes))
	}
	w.Flush()
}

// placeOr names a sub-cluster, or says what is so where there is none.
func placeOr(name, none, scheduler string) string {
	if name == "" {
		return none
	}
	return atScheduler(name, scheduler)
}

// atScheduler names a sub-cluster where there are several schedulers.
func atScheduler(name, scheduler string) string {
	if scheduler == "" {
		return name
	}
	return name + " at " + scheduler
}

// loads of models onto GPUs; those that need none are empty.
func loads(n int, bytes int64) string {
	if n == 0 {
		return ""
	}
	return cli.Count(n, "load") + ", " + size(bytes)
}

type planApplyCmd struct {
	Flags      `embed:""`
	Waiting    `embed:"" set:"awaited=the roll-out has ended" set:"order=roll-out"`
	File       string `help:"Roll out this plan: JSON or YAML with sub_clusters, as symphony plan show --json and symphony partition --json write them; - is standard input. It holds until plan resume, or apply without a file." placeholder:"FILE"`
	DeviceType string `help:"With --file: of sub-clusters that name none; not given: that of the plan in force, if it has one only." placeholder:"TYPE"`
}

// Run applies.
func (c planApplyCmd) Run() error { return c.run(c.apply) }

func (c planApplyCmd) apply(s *session) error {
	p, of, err := c.order(s)
	if err != nil {
		return err
	}
	if len(p.Lost) > 0 {
		s.note("not linked, and not waited for: %s", strings.Join(p.Lost, ", "))
	}
	if c.Wait {
		p, err = c.await(s, p, of)
	} else {
		err = ordered(&p, of).failed()
	}
	return errors.Join(s.print(p, func() { s.planLines(&p) }), err)
}

// order has the plan rolled out: the controller's own, or that of the file; of are the schedulers that
// this one names.
func (c planApplyCmd) order(s *session) (p api.Plan, of []string, err error) {
	if c.File == "" {
		if c.DeviceType != "" {
			return p, nil, errors.New("--device-type is for the plan of --file: the controller knows its GPUs")
		}
		p, err = s.Apply(s.ctx)
		return p, nil, err
	}
	spec, err := s.readPlan(c.File, c.DeviceType)
	if err != nil {
		return p, nil, err
	}
	for i := range spec.SubClusters {
		of = append(of, spec.SubClusters[i].Scheduler)
	}
	p, err = s.Put(s.ctx, spec)
	return p, of, err
}

type planPauseCmd struct {
	Flags `embed:""`
	Why   string `help:"For whoever finds it paused." placeholder:"TEXT"`
}

// Run pauses.
func (c planPauseCmd) Run() error { return c.run(c.pause) }

func (c planPauseCmd) pause(s *session) error {
	e, err := s.Pause(s.ctx, c.Why)
	if err != nil {
		return err
	}
	return s.print(e, func() {
		fmt.Fprintln(s.out, "epochs are paused: until symphony plan resume only models that are added, changed or removed make a plan; symphony plan apply makes one now")
	})
}

type planResumeCmd struct {
	Flags `embed:""`
}

// Run resumes.
func (c planResumeCmd) Run() error { return c.run(c.resume) }

func (c planResumeCmd) resume(s *session) error {
	e, err := s.Resume(s.ctx)
	if err != nil {
		return err
	}
	return s.print(e, func() { fmt.Fprintln(s.out, "plans are made again") })
}

type planHistoryCmd struct {
	Flags `embed:""`
}

// Run shows the last plans.
func (c planHistoryCmd) Run() error { return c.run(c.history) }

func (c planHistoryCmd) history(s *session) error {
	h, err := s.History(s.ctx)
	if err != nil {
		return err
	}
	return s.print(h, func() {
		if len(h.Plans) == 0 {
			s.note("no plan was made yet")
			return
		}
		w := table(s.out)
		several := slices.ContainsFunc(h.Plans, func(p api.Plan) bool { return p.Scheduler != "" })
		head := "EPOCH\tMADE\tBY\tCAUSE\tMODELS\tGPUS\tNEEDED\tMOVES\tSTEPS\tSTATE"
		if several {
			head = "SCHEDULER\t" + head
		}
		fmt.Fprintln(w, head)
		for _, p := range h.Plans {
			state := p.State
			if p.Reason != "" {
				state += ": " + p.Reason
			}
			if several {
				fmt.Fprintf(w, "%s\t", cmp.Or(p.Scheduler, "-"))
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%d\t%.1f\t%d\t%d/%d\t%s\n", p.Epoch, p.At.Local().Format(time.DateTime), p.By, p.Cause, p.Models, p.GPUs, p.Need, p.Moves, p.StepsDone, p.Steps, state)
		}
		w.Flush()
	})
}
