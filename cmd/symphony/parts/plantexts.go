package parts

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	control "github.com/symphony-serving/symphony/scheduler/control/client"
	"github.com/symphony-serving/symphony/scheduler/watch"
)

// planTexts asks the control plane for its plan and its advice, in words. It is asked only while
// somebody looks, and what it does not answer within textsWait is left out.
type planTexts struct {
	token  string
	url    string
	client *control.Client
}

const (
	textsWait = time.Second
	// partsMost bounds the sub-clusters that are listed.
	partsMost = 40
)

func (t *planTexts) ask(ctx context.Context, url string) []watch.Info {
	if t.client == nil || t.url != url {
		client, err := control.New(control.Options{URL: url, Token: t.token, Timeout: textsWait})
		if err != nil {
			return []watch.Info{{Name: "plan", Lines: []string{"the control plane's address is wrong: " + err.Error()}}}
		}
		t.client, t.url = client, url
	}
	ctx, cancel := context.WithTimeout(ctx, textsWait)
	defer cancel()
	state, err := t.client.State(ctx)
	if err != nil {
		return []watch.Info{{Name: "plan", Lines: []string{"the control plane does not answer (" + err.Error() + "): the scheduler goes on with what it was told last"}}}
	}
	out := []watch.Info{{Name: "plan", Lines: planWords(ctx, t.client, &state)}}
	if advice, err := t.client.Advice(ctx); err == nil && len(advice.Groups) > 0 {
		out = append(out, watch.Info{Name: "advice", Lines: adviceWords(&advice)})
	}
	return out
}

func planWords(ctx context.Context, c *control.Client, st *api.Status) (lines []string) {
	if st.Leader == nil {
		lines = append(lines, "nobody leads the control plane: no plans are made until one does")
	}
	if st.Store.Away {
		lines = append(lines, "the store is away: what is served goes on, changes wait")
	}
	if st.Epochs.Paused {
		lines = append(lines, "epochs are paused: "+st.Epochs.Why)
	}
	p, err := c.Plan(ctx)
	if err != nil {
		p = st.Plan
	}
	if p.Epoch == 0 {
		return append(lines, "no plan was made yet: all GPUs of a type are one sub-cluster")
	}
	text := fmt.Sprintf("plan %d: %s", p.Epoch, p.State)
	if p.State == api.PlanRollsOut && p.Steps > 0 {
		text += fmt.Sprintf(" (%d of %d steps)", p.StepsDone, p.Steps)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	lines = append(lines, fmt.Sprintf("%s; %d models, %d GPUs, %.1f needed, %d models moved (%s)", text, p.Models, p.GPUs, p.Need, p.Moves, p.Cause))
	for i := range p.SubClusters {
		if i == partsMost {
			return append(lines, fmt.Sprintf("and %d more sub-clusters", len(p.SubClusters)-i))
		}
		s := &p.SubClusters[i]
		lines = append(lines, fmt.Sprintf("%s (%s): %d models, %d of %d GPUs in service, %.1f needed, %.0f %% busy", s.Name, s.DeviceType, len(s.Models), s.Seated, s.GPUs, s.Need, 100*s.Busy))
	}
	return lines
}

func adviceWords(a *api.Advice) (lines []string) {
	for i := range a.Groups {
		g := &a.Groups[i]
		text := fmt.Sprintf("%s: %s", g.DeviceType, g.Action)
		if g.Why != "" {
			text += ", " + g.Why
		}
		lines = append(lines, fmt.Sprintf("%s (%d GPUs serve, %d are wanted, %.1f are needed)", text, g.GPUs, g.Want, g.Need))
	}
	return lines
}
