package rank

import (
	"math"
	"math/bits"

	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// room is which GPUs are left to tight models: those whose requests cannot wait for as long as others' batches
// hold a GPU.
//
//	id   0   1   2   3        below = 3
//	   [all][all][all][tight]
//
// A batch runs to its end. A request that may wait for 0.3 ms finds no GPU while batches of 4 ms run on all of them,
// whoever is preferred when one becomes free, and however many of its kind there are: three models on four GPUs were
// held to 0.6 of what the GPUs could do by one that takes a twentieth of them (docs/decisions/0051). So the GPUs of the highest
// ids, a sixteenth of them or one, take no batches but of the models with the least slack, as many of these as fill
// half of them. Those may take any other GPU, too, the smallest id first as ever.
//
// It costs what the GPUs that are left would serve otherwise: so it is a part of the setting, and
// scheduler/tuner tries it.
//
// Rejected: room for all models whose slack is less than GPUs are held, on as many GPUs as their work takes and its
// root more: with half of 37 models on 5 of 18 GPUs the rest lost three quarters of their requests.
type room struct {
	on    bool
	below uint32   // models that are not tight run on GPUs with ids below it
	least mono.Dur // models with less slack are tight
	span  int64    // it was reckoned in; 0: it must be anew
}

const (
	// roomPart: one GPU in so many is left, and one at least. (On 104/50 and 104/8 of `bench draws` one is.)
	roomPart = 16
	// roomFull is how much of their time tight models may take.
	roomFull = 0.5
	// tightFrees: where so many GPUs become free by chance, on average, while a request may wait, it finds none once in
	// exp(tightFrees), 1,100.
	tightFrees = 7
	// slackSteps to a doubling: slacks are told apart by that much.
	slackSteps, slackBits = 8, 3
	slackRows             = 64 * slackSteps
)

// of is below which id the model may run.
func (o *room) of(m *model) uint32 {
	if m.slack < o.least {
		return math.MaxUint32
	}
	return o.below
}

// SetRoom tells whether GPUs are left to tight models. Not with a limited headroom: what is not kept is
// to stay idle.
func (r *Rank) SetRoom(on bool) {
	if on != r.room.on && !r.cfg.Headroom.Limited {
		r.room = room{on: on, below: math.MaxUint32}
	}
}

// leaveRoom reckons anew, once in a span. O(models).
func (r *Rank) leaveRoom(now mono.Time) {
	n := devices.SpanOf(now)
	if !r.room.on || r.room.span == n {
		return
	}
	below, least := r.roomFor(n, now)
	r.room = room{on: true, below: below, least: least, span: n}
}

// Tight tells whether room might be worth it, by what came lately: GPUs would be left, were that asked for, and not even
// tightFrees of them become free while a request of the tightest model may wait. It decides nothing. O(models).
func (r *Rank) Tight(now mono.Time) bool {
	if r.cfg.Headroom.Limited {
		return false
	}
	n := devices.SpanOf(now)
	if below, _ := r.roomFor(n, now); below == math.MaxUint32 {
		return false
	}
	work, held := r.bySlack(n)
	row := 0
	for row < slackRow(held) && work[row] == 0 {
		row++
	}
	return float64(slackOf(row)) < float64(tightFrees*float64(held))/float64(r.gpus.Count())
}

// roomFor reckons below which id GPUs serve all models, in the span of that number, and models of less than which slack
// are served by the others.
func (r *Rank) roomFor(n int64, now mono.Time) (below uint32, least mono.Dur) {
	keep := max(1, r.gpus.Count()/roomPart)
	if keep >= r.gpus.Count() {
		return math.MaxUint32, 0
	}
	work, held := r.bySlack(n)
	span := float64(now.Sub(mono.Time((n - 1) * int64(devices.Span)))) // that recent tells of
	row, sum := 0, 0.0
	for most := float64(roomFull*float64(keep)) * span; row < slackRow(held); row++ {
		if sum+work[row] > most {
			break
		}
		sum += work[row]
	}
	if sum == 0 {
		return math.MaxUint32, 0
	}
	return r.gpus.Holding(r.gpus.Count() - keep), slackOf(row)
}

// bySlack is the GPU time that was wanted lately, by rows of slack; and for how long the batch holds a
// GPU that runs at a random time.
func (r *Rank) bySlack(n int64) (work [slackRows]float64, held mono.Dur) {
	squares, taken := 0.0, 0.0
	for _, m := range r.models {
		if m == nil {
			continue
		}
		batches, time, wanted := m.usage.Lately(n)
		if batches == 0 {
			continue
		}
		t := float64(time)
		squares += float64(t*t) / float64(batches)
		taken += t
		work[slackRow(m.slack)] += float64(wanted)
	}
	return work, mono.Dur(squares / max(1, taken))
}

// slackRow is the row of a slack: its binary logarithm, in steps. Rows are in the order of the slacks.
func slackRow(d mono.Dur) int {
	v := uint64(max(slackSteps, d))
	exp := bits.Len64(v) - 1
	return exp<<slackBits | int(v>>(exp-slackBits))&(slackSteps-1)
}

// slackOf is the least slack of a row.
func slackOf(row int) mono.Dur {
	exp := row >> slackBits
	return mono.Dur((slackSteps | row&(slackSteps-1)) << max(0, exp-slackBits))
}

// wait: the candidate's time has come, and no GPU is free for it.
func (r *Rank) wait(id uint32, m *model, now mono.Time) {
	key := r.key(m, now)
	if r.room.of(m) == math.MaxUint32 {
		r.ready.Set(id, key)
	} else {
		r.long.Set(id, key)
	}
}

// first is the heap whose first candidate takes a GPU now, and below which id; false when no GPU
// is within reach of any.
func (r *Rank) first(now mono.Time) (waiting *pq.Heap, below uint32, ok bool) {
	key, ok := r.reach(&r.ready, math.MaxUint32, now)
	if r.long.Len() > 0 {
		if due, can := r.reach(&r.long, r.room.below, now); can && (!ok || due < key) {
			return &r.long, r.room.below, true
		}
	}
	return &r.ready, math.MaxUint32, ok
}

// reach tells whether a GPU below an id is within reach of an order to the first candidate, and its key.
func (r *Rank) reach(waiting *pq.Heap, below uint32, now mono.Time) (key int64, ok bool) {
	if waiting.Len() == 0 {
		return 0, false
	}
	free := r.gpus.SoonestBelow(below)
	id, key := waiting.Min()
	return key, free != mono.Never && free.Add(-r.models[id].candidate.Delay) <= now
}
