package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Headline is the story in one sentence.
func (t *Story) Headline(s *State) string {
	after := t.Ended.Sub(t.Request.Arrival)
	switch t.Outcome {
	case Served:
		text := fmt.Sprintf("%s request %s was served in time: %v after its arrival, %v before its deadline.", t.Name, t.Request.Key, span(after), span(t.Request.Deadline.Sub(t.Ended)))
		if wait := t.loadWait(s); wait != "" {
			text += " " + wait
		}
		return text
	case Running:
		return fmt.Sprintf("%s request %s is in a batch that has not been reported.", t.Name, t.Request.Key)
	case Late:
		return fmt.Sprintf("%s request %s was late by %v: %s.", t.Name, t.Request.Key, span(t.Short), t.because(s))
	}
	return fmt.Sprintf("%s request %s was dropped (%v) %v after its arrival: %s.", t.Name, t.Request.Key, t.Reason, span(after), t.because(s))
}

// because is the cause with the batch that it names.
func (t *Story) because(s *State) string {
	switch t.Cause {
	case CauseLateRecord:
		return fmt.Sprintf("the scheduler heard of it %v after its arrival, when %v were left and it needs %v%s",
			span(t.came().Sub(t.Request.Arrival)), span(t.Request.Deadline.Add(-t.Margin).Sub(t.came())), span(t.Alone+t.First.Sub(t.came())), t.hadBy(s, "; "))
	case CauseLongBatch:
		return fmt.Sprintf("it could wait for %v, and %s", span(t.Last.Sub(t.came())), t.needed(s))
	case CauseOverload:
		text := "more came than the GPUs carry" + t.hadBy(s, "; ")
		if t.LostTo != nil && t.LostTo != t.Needed {
			text += fmt.Sprintf("; while it waited %s was given a GPU", t.LostTo.words(t, s))
		}
		return text
	case CauseLateInputs, CauseOverrun:
		return t.slipped(s)
	case CauseLateScheduler:
		return "a GPU was free in its window, and no batch was sent: the scheduler was late"
	case CauseCold:
		return t.cold(s)
	case CauseRefused:
		return "it never waited for a GPU"
	}
	return "what would tell why is not among the events" + t.whereabouts(s)
}

// slipped names the batch that was late, and its own where that is another.
func (t *Story) slipped(s *State) string {
	r := t.Own
	if t.Needed != nil {
		r = t.Needed
	}
	root := r.root()
	how := fmt.Sprintf("started %v later than planned, for its order or its inputs were late", span(root.late()))
	if t.Cause == CauseOverrun {
		how = fmt.Sprintf("ran %v longer than its profile says", span(root.over()))
	}
	switch {
	case root == t.Own:
		return fmt.Sprintf("its batch %s of %d on %s %s", Number(root.Batch), root.Size, s.GPUName(t.Pool, root.GPU), how)
	case root == r:
		return fmt.Sprintf("%s; that batch %s", t.needed(s), how)
	}
	return fmt.Sprintf("%s; before it, batch %s of %s %s", t.needed(s), Number(root.Batch), root.Name, how)
}

// needed says who had the GPU that it needed.
func (t *Story) needed(s *State) string {
	if t.Needed == nil {
		return "no GPU was free"
	}
	if t.Own != nil {
		return fmt.Sprintf("%s had been held until %s by %s", s.GPUName(t.Pool, t.Needed.GPU), t.at(t.Needed.to()), t.Needed.words(t, s))
	}
	if t.FreeAt <= t.Last {
		return fmt.Sprintf("the GPU that it needed, %s, free at %s, went to %s", s.GPUName(t.Pool, t.Needed.GPU), t.at(t.FreeAt), t.Needed.words(t, s))
	}
	return fmt.Sprintf("the GPU that was free next, %s (at %s, %v too late), was held by %s", s.GPUName(t.Pool, t.Needed.GPU), t.at(t.FreeAt), span(t.Short), t.Needed.words(t, s))
}

// hadBy is needed behind a joint, where there is such a batch.
func (t *Story) hadBy(s *State, joint string) string {
	if t.Needed == nil || t.Cause == CauseLateRecord && t.FreeAt <= t.First {
		return ""
	}
	return joint + t.needed(s)
}

// words are a batch as people read of it, with when it ran.
func (r *Ran) words(t *Story, s *State) string {
	return fmt.Sprintf("batch %s (%d of %s, %s to %s on %s)", Number(r.Batch), r.Size, r.Name, t.at(r.began()), t.at(r.to()), s.GPUName(t.Pool, r.GPU))
}

// at is an instant as a span since the request's arrival.
func (t *Story) at(i mono.Time) string { return signed(i.Sub(t.Request.Arrival)) }

func signed(d mono.Dur) string {
	if d > -mono.Millisecond/20 && d < 0 {
		d = 0 // "-0.0"
	}
	return fmt.Sprintf("%+.1f ms", d.Millis())
}

// span is a span as people read it.
func span(d mono.Dur) string {
	switch {
	case d > -mono.Millisecond && d < mono.Millisecond:
		return fmt.Sprintf("%d us", d/mono.Microsecond)
	case d >= 10*mono.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", d.Millis())
}

// offPlan is how far something was from its plan.
func offPlan(d mono.Dur) string {
	if d < 0 {
		return span(-d) + " before the plan"
	}
	return span(d) + " after the plan"
}

// gpusMost is how many GPUs a story lists: those that were free first.
const gpusMost = 8

// Lines are the whole story as text: what happened when, since its arrival, who had the GPUs,
// and what would have saved it.
func (t *Story) Lines(s *State) []string {
	out := []string{t.Headline(s), ""}
	for _, step := range t.Steps(s) {
		out = append(out, fmt.Sprintf("%12s  %s", t.at(step.At), step.Text))
	}
	out = append(out, t.who()...)
	if len(t.Saved) > 0 {
		out = append(out, "", "What would have saved it:")
		for _, line := range t.Saved {
			out = append(out, "  - "+line)
		}
	}
	if t.Gaps {
		out = append(out, "", "Not all events of that time are here (sampled, or not yet kept): a batch may be missing.")
	}
	return out
}

// Step is one line of what happened to a request.
type Step struct {
	At   mono.Time `json:"at"`
	Text string    `json:"text"`
}

// Steps are what happened, in order.
func (t *Story) Steps(s *State) (out []Step) {
	say := func(at mono.Time, format string, args ...any) {
		out = append(out, Step{at, fmt.Sprintf(format, args...)})
	}
	say(t.Request.Arrival, "arrives at frontend %d, due %s", t.Request.Key.Frontend, t.at(t.Request.Deadline))
	if t.Request.Came != 0 {
		say(max(t.Request.Came, t.Request.Arrival), "comes to the scheduler") // what clocks differ by is no time
	}
	if t.Alone > 0 && t.Outcome == Dropped && t.waited() {
		if t.First > t.Last {
			say(t.First, "could start, at the earliest; alone it takes %v, so it had to by %s%s", span(t.Alone), t.at(t.Last), t.less())
		} else {
			say(t.First, "could start from now on; alone it takes %v, so it had to by %s%s", span(t.Alone), t.at(t.Last), t.less())
		}
	}
	t.loadSteps(s, say)
	if t.LostTo != nil && t.LostTo != t.Needed {
		say(t.LostTo.Sent, "%s is given a GPU, while this waits", t.LostTo.words(t, s))
	}
	if t.Needed != nil && t.Outcome == Dropped && t.Short > 0 {
		say(t.FreeAt, "%s is free, the first of them: %v too late", s.GPUName(t.Pool, t.Needed.GPU), span(t.Short))
	}
	if t.Own != nil {
		t.Own.steps(t, s, say)
	}
	if t.Outcome == Dropped {
		say(t.Ended, "is dropped: %v", t.Reason)
	}
	slices.SortStableFunc(out, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return out
}

func (t *Story) less() string {
	if t.Margin == 0 {
		return ""
	}
	return fmt.Sprintf(" (%v of margin off)", span(t.Margin))
}

// steps are its own batch's.
func (r *Ran) steps(t *Story, s *State, say func(mono.Time, string, ...any)) {
	say(r.Sent, "leaves in batch %s of %d, to start on %s at %s and end at %s", Number(r.Batch), r.Size, s.GPUName(t.Pool, r.GPU), t.at(r.Exec), t.at(r.Until))
	if !r.Reported {
		return
	}
	if r.Fetch > 0 {
		say(r.Start, "starts, %s; its inputs took %v", offPlan(r.Start.Sub(r.Exec)), span(r.Fetch))
	} else {
		say(r.Start, "starts, %s", offPlan(r.Start.Sub(r.Exec)))
	}
	say(r.End, "ends, %s", offPlan(r.End.Sub(r.Until)))
}

// who lists what the GPUs did meanwhile, those that were free first before the others.
func (t *Story) who() (out []string) {
	if len(t.GPUs) == 0 {
		return nil
	}
	out = append(out, "", "Who had the GPUs meanwhile:")
	order := make([]int, len(t.GPUs))
	for i := range order {
		order[i] = i
	}
	sortBy(order, func(i int) int64 { return int64(t.GPUs[i].FreeAt) })
	for n, i := range order {
		if n == gpusMost {
			return append(out, fmt.Sprintf("  and %d more, free later", len(order)-n))
		}
		g := &t.GPUs[i]
		var ran []string
		for _, r := range g.Ran {
			ran = append(ran, fmt.Sprintf("%s x%d %s..%s", r.Name, r.Size, t.at(r.began()), t.at(r.to())))
		}
		if len(ran) == 0 {
			ran = []string{"nothing"}
		}
		out = append(out, fmt.Sprintf("  GPU %-4d free %-11s %s", g.GPU, t.at(g.FreeAt), strings.Join(ran, ", ")))
	}
	return out
}
