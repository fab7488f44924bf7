package tuner

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// tally is what became of a shadow's requests, older ones counting for less.
type tally struct {
	models []modelTally
	all    modelTally
	fresh  modelTally // since the last look at it; not faded

	kept    []modelTally // put aside, by model
	keptAll modelTally
	more    float64 // than 1 that a request counts for, but in fresh
}

type modelTally struct {
	served, bad float64
	waited      float64 // sum over those served of the wait's part of the budget
}

func (t *tally) model(id wire.ModelID) *modelTally {
	for int(id) >= len(t.models) {
		t.models = append(t.models, modelTally{})
	}
	return &t.models[id]
}

func (t *tally) drop(id wire.ModelID) {
	t.model(id).bad += 1 + t.more
	t.all.bad += 1 + t.more
	t.fresh.bad++
}

func (t *tally) serve(r *batching.Request, start mono.Time) {
	wait := float64(start.Sub(r.Arrival)) / float64(max(1, r.Deadline.Sub(r.Arrival)))
	for _, m := range [...]*modelTally{t.model(wire.ModelID(r.Input.Length)), &t.all} {
		m.served += 1 + t.more
		m.waited += float64((1 + t.more) * wait)
	}
	t.fresh.served++
	t.fresh.waited += wait
}

// copy makes the tally another one's.
func (t *tally) copy(other *tally) {
	t.models = append(t.models[:0], other.models...)
	t.all, t.fresh = other.all, other.fresh
}

// requests is how many it has seen, older ones counting for less.
func (t *tally) requests() float64 { return t.all.served + t.all.bad }

// putAside keeps a part of the counts, which stay as they are.
func (t *tally) putAside(part float64) {
	t.kept, t.keptAll = append(t.kept[:0], t.models...), t.all
	for i := range t.kept {
		t.kept[i].fade(part)
	}
	t.keptAll.fade(part)
}

// takeBack adds what was put aside.
func (t *tally) takeBack() {
	for i := range t.kept {
		t.model(wire.ModelID(i)).add(&t.kept[i])
	}
	t.all.add(&t.keptAll)
	t.kept, t.keptAll = t.kept[:0], modelTally{}
}

// remove forgets a model.
func (t *tally) remove(id wire.ModelID) {
	if int(id) < len(t.kept) {
		t.keptAll.sub(&t.kept[id])
		t.kept[id] = modelTally{}
	}
	if int(id) < len(t.models) {
		t.all.sub(&t.models[id])
		t.models[id] = modelTally{}
	}
}

// fade multiplies all counts.
func (t *tally) fade(by float64) {
	for i := range t.models {
		t.models[i].fade(by)
	}
	t.all.fade(by)
}

func (m *modelTally) add(o *modelTally) {
	m.served += o.served
	m.bad += o.bad
	m.waited += o.waited
}

func (m *modelTally) sub(o *modelTally) {
	m.served -= o.served
	m.bad -= o.bad
	m.waited -= o.waited
}

func (m *modelTally) fade(by float64) {
	m.served *= by
	m.bad *= by
	m.waited *= by
}

// badRate of all, and of the model that fares worst. A model of few requests is
// taken for the mean of all, as far as it has not shown otherwise.
func (t *tally) badRates() (all, worst float64) {
	if n := t.all.served + t.all.bad; n > 0 {
		all = t.all.bad / n
	}
	for i := range t.models {
		m := &t.models[i]
		if n := m.served + m.bad; n > 0 {
			worst = max(worst, (m.bad+float64(all*likeAll))/(n+likeAll))
		}
	}
	return all, worst
}

// wait is the mean wait as a part of the budget.
func (t *tally) wait() float64 { return t.all.waited / max(1, t.all.served) }

// likeAll is how many requests a model counts as having had with the bad rate of all.
const likeAll = 100
