package batching

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Dropped is a slot that left the queue without a batch.
type Dropped struct {
	Slot   uint32
	Reason wire.Reason
}

// Model is one model's queue and candidate.
type Model struct {
	cfg       Config
	queue     pq.Sorted // key: deadline, then priority; value: slot
	candidate Candidate
	wake      mono.Time // see NextWake
	gpus      int       // by the last Offer
	share     Share     // likewise, or Config's
	rivals    bool      // likewise
	idle      bool      // likewise
	others    int       // likewise
	lost      int       // requests since the last batch
	forgone   mono.Dur  // see Forgone
	since     mono.Time // the queue has not been empty from then on
	came      mono.Time // when the newest request since the last Update came in; 0: none
	floor     mono.Time // see SetFloor
	cold      bool      // a floor held the candidate back: its start teaches nothing
	due       mono.Time // see Due
	deferred  bool      // likewise
	aims
	setting  Setting
	arrivals arrivals
	opening  opening
	spans    spans
	need     float64
}

// NewModel makes an empty queue.
func NewModel(cfg Config) *Model {
	m := &Model{cfg: cfg, share: cfg.Share, wake: mono.Never, floor: mono.Past}
	m.SetDelay(cfg.Delay)
	return m
}

// Len is the number of waiting requests.
func (m *Model) Len() int { return m.queue.Len() }

// First is the earliest deadline, as Push had it; Never where none waits.
func (m *Model) First() mono.Time {
	if m.queue.Len() == 0 {
		return mono.Never
	}
	return m.deadline(0)
}

// Candidate is the batch that the last Update formed.
func (m *Model) Candidate() Candidate { return m.candidate }

// Target is the batch size that the target policy holds under overload.
func (m *Model) Target() int { return m.target }

// Profile is the latency profile in force.
func (m *Model) Profile() *profile.Profile { return m.cfg.Profile }

// SLO is the model's.
func (m *Model) SLO() mono.Dur { return m.cfg.SLO }

// Delay is the network's delay bound in force, Sized.
func (m *Model) Delay() Delay { return m.cfg.Delay }

// SetDelay sets the network's delay bound. Like the other setters it changes what Update
// reckons with: call Update afterwards.
func (m *Model) SetDelay(d Delay) { m.cfg.Delay = d.Sized(m.cfg.Bytes); m.retarget() }

// SetWindow sets the rule for exec.
func (m *Model) SetWindow(w Window) { m.cfg.Window = w }

// SetConfig replaces the whole configuration and keeps the queue.
func (m *Model) SetConfig(cfg Config) {
	m.cfg, m.share = cfg, cfg.Share
	m.SetDelay(cfg.Delay)
}

// SetShare sets how many GPUs the model can count on, until an Offer tells.
func (m *Model) SetShare(s Share) { m.cfg.Share, m.share = s, s; m.retarget() }

// Push queues a request that arrives now; false when the queue is full.
func (m *Model) Push(now, deadline mono.Time, priority wire.Priority, slot uint32) bool {
	if m.queue.Len() >= m.cfg.QueueMax {
		return false
	}
	m.arrivals.request(now, m.cfg.SLO)
	if m.spans.request(now) {
		m.need = Need(m.cfg.Profile, m.cfg.SLO, m.spans.perNano())
	}
	if m.queue.Len() == 0 {
		m.since = now
	}
	m.queue.Insert(pq.Entry{Key: int64(deadline), Then: priority.Order(), Value: slot})
	return true
}

// Came tells when a request that Push queues came in: before now, where it waited for
// whoever drives the Model. For Due.
func (m *Model) Came(at mono.Time) { m.came = max(m.came, at) }

// PopAny takes the first waiting request out, for a model that goes away.
func (m *Model) PopAny() (slot uint32, ok bool) {
	if m.queue.Len() == 0 {
		return 0, false
	}
	return m.queue.Pop().Value, true
}

// Remove takes a waiting request out that is says to be the one: of deadlines at most slack away from
// the given one, as Push had them, the nearest first. ok is false where there is none. Call Update
// afterwards. O(log n), and what lies between for each that is not the one.
func (m *Model) Remove(deadline mono.Time, slack mono.Dur, is func(slot uint32) bool) (slot uint32, ok bool) {
	from := m.queue.Below(int64(deadline))
	for up, down := from, from-1; ; up, down = up+1, down-1 {
		above := up < m.queue.Len() && m.deadline(up) <= deadline.Add(slack)
		below := down >= 0 && m.deadline(down) >= deadline.Add(-slack)
		switch {
		case !above && !below:
			return 0, false
		case above && is(m.queue.At(up).Value):
			return m.queue.Remove(up).Value, true
		case below && is(m.queue.At(down).Value):
			return m.queue.Remove(down).Value, true
		}
	}
}

// Update drops the heads that cannot make it any more and forms the candidate
// anew; call it after every change and at NextWake. (UPDATECANDIDATE)
func (m *Model) Update(now mono.Time, drops []Dropped) []Dropped {
	expired := m.NextWake() <= now // the candidate that stood: else the head was hopeless when it came
	if expired && m.queue.Len() > 0 && m.fit(m.deadline(0), now, mono.Past) == 0 {
		m.missed()
	}
	for m.queue.Len() > 0 {
		if b := m.batchFor(now, m.floor); b > 0 {
			b, drops = m.shed(now, m.floor, b, drops)
			stood := m.candidate.Size > 0
			m.candidate = m.window(b, now)
			if m.candidate.Exec < m.floor {
				m.await()
			}
			m.wake = m.candidate.Latest.Add(-m.candidate.Delay).Add(1)
			m.setDue(stood, now)
			invariants.Check(m.candidate.Exec <= m.candidate.Latest, "batching: a window that ends before it begins")
			invariants.Check(m.NextWake() > now, "batching: a candidate that has expired when it is formed")
			return drops
		}
		if m.floor > now && m.fit(m.deadline(0), now, mono.Past) > 0 {
			drops = m.drop(wire.ReasonCold, false, drops)
		} else {
			drops = m.drop(wire.ReasonDeadline, expired && !m.cold, drops)
		}
	}
	m.candidate, m.wake, m.came, m.cold = Candidate{}, mono.Never, 0, false
	return drops
}

// drop gives the head up. It counts as lost if it could have been served: a
// client whose deadlines no schedule could keep must teach the model nothing.
func (m *Model) drop(reason wire.Reason, lost bool, drops []Dropped) []Dropped {
	if lost {
		m.opening.fresh++
		m.lost++
	}
	return append(drops, Dropped{m.queue.Pop().Value, reason})
}

// Due is when the candidate's order had left if nothing took time: at Exec - Delay where it
// is deferred, else when it was formed or its newest request came in, if not earlier:
// a batch that does not take all that wait was complete with its own last request. It
// decides nothing.
func (m *Model) Due() (at mono.Time, deferred bool) { return m.due, m.deferred }

// setDue is for a candidate that was just formed; stood: in the place of one that nobody
// took. If that was due, so is this one, from then on.
func (m *Model) setDue(stood bool, now mono.Time) {
	leave := m.candidate.Exec.Add(-m.candidate.Delay)
	came := min(m.came, now)
	if came == 0 {
		came = now
	}
	m.came = 0
	if m.deferred = leave > now; m.deferred {
		m.due = leave
	} else if stood {
		m.due = min(m.due, came)
	} else {
		m.due = came
	}
}

// window is the candidate of size b at the front of the queue.
func (m *Model) window(b int, now mono.Time) Candidate {
	d, p := m.deadline(0), m.cfg.Profile
	c := Candidate{Batch: Batch{Size: int32(b)}, Latest: d.Add(-p.Latency(b)), Delay: m.cfg.Delay.Of(b)}
	c.Exec = now.Add(c.Delay)
	if b == m.most {
		return c // it cannot grow
	}
	frontrun := d.Add(-p.Latency(b + 1))
	switch m.cfg.Window {
	case WindowDeferred:
		if m.frontrun || !m.ripe(b) {
			// In here, not in a function: it is done for nearly each request.
			lead := max(m.cfg.Delay.lead(d.Sub(now)), m.late())
			open := frontrun.Add(-lead)
			if !m.frontrun {
				open = min(frontrun, max(frontrun.Add(-max(m.opening.lead, lead)), m.since.Add(m.company)))
			}
			if open > c.Exec && m.setting.Haste == 0 {
				c.Exec = open
			} else if open > c.Exec {
				c.Exec, c.Hold = m.hasten(c.Exec, open, frontrun)
			}
		}
	case WindowFrontrun:
		c.Exec = max(c.Exec, frontrun)
	case WindowTimeout:
		// What no longer fits at the timeout is not in the batch that waits for it.
		at := d.Add(m.cfg.Timeout - m.cfg.SLO)
		if fits := max(1, p.Largest(d.Sub(at), 0)); fits < b {
			b = fits
			c.Size, c.Latest, c.Delay = int32(b), d.Add(-p.Latency(b)), m.cfg.Delay.Of(b)
		}
		c.Exec = max(now.Add(c.Delay), min(c.Latest, at))
	}
	return c
}

// hasten is the candidate's exec, not before earliest: open, when its window opens under the
// whole deferral, less what of that the setting does not spend; and its hold.
func (m *Model) hasten(earliest, open, frontrun mono.Time) (exec mono.Time, hold uint32) {
	at := open.Add(-open.Sub(m.since) / HasteAll * mono.Dur(m.setting.Haste))
	if !m.setting.Alone {
		at = max(at, min(frontrun, m.since.Add(m.company)))
	}
	exec = max(earliest, min(open, at))
	return exec, uint32(min(math.MaxUint32, open.Sub(exec)/holdUnit))
}

// late is how much of Delay.Late this model spends.
func (m *Model) late() mono.Dur {
	if m.cfg.Delay.Late == 0 || !m.idle {
		return 0
	}
	return min(m.cfg.Delay.Late, m.cfg.SLO/latePart)
}

// SetSetting changes the setting; call Update afterwards. Under Frontrun no start comes before
// its frontrun, so an opening only ever grows: what was learnt there, and before it, tells
// nothing of the windows that follow.
func (m *Model) SetSetting(s Setting) {
	if s.Frontrun != m.setting.Frontrun {
		m.opening = opening{}
	}
	m.setting = s
	m.retarget()
}

// NextWake is when the candidate stops being possible; Never without one.
func (m *Model) NextWake() mono.Time { return m.wake }

// Take finalises the batch for a GPU: it appends the slots to batch and what
// was dropped to drops, and says when the batch starts. The batch is empty when
// nothing waits that this GPU could still serve in time. Call Update
// afterwards. (The first half of DISPATCH)
func (m *Model) Take(now mono.Time, gpu Offer, batch []uint32, drops []Dropped) ([]uint32, []Dropped, mono.Time) {
	m.offered(gpu)
	drops = m.Update(now, drops)
	free := max(gpu.FreeAt, m.floor)
	b := m.batchFor(now, free)
	if gpu.Crowded {
		b, drops = m.crowd(now, free, b, m.most, drops)
	} else if gpu.Full {
		b, drops = m.fillUp(now, free, b, drops)
	}
	b, drops = m.shed(now, free, b, drops)
	for b > 0 && m.shedding(b) && !m.spread(b, now) {
		drops = m.drop(wire.ReasonShed, true, drops)
		b = m.batchFor(now, free)
	}
	if b == 0 {
		return batch, drops, 0
	}
	start := max(now.Add(m.cfg.Delay.Of(b)), free) // a finished batch has nothing to wait for
	invariants.Check(start <= m.deadline(0).Add(-m.cfg.Profile.Latency(b)), "batching: a batch that starts after its latest")
	if m.setting.Cheap {
		m.lost = min(m.lost, m.recently())
	}
	m.forgone = mono.Dur(m.lost) * m.cfg.Profile.Latency(b) / mono.Dur(b)
	m.lost = 0
	m.learn(b, start)
	for range b {
		batch = append(batch, m.queue.Pop().Value)
	}
	m.candidate, m.wake, m.cold = Candidate{}, mono.Never, false
	return batch, drops, start
}

// Need is the GPUs that the model's requests would keep busy under deferral alone
// (package function Need), at the rate of the last seconds.
func (m *Model) Need() float64 { return m.need }

// Slack is for how long a request that runs alone may wait.
func (m *Model) Slack() mono.Dur { return m.cfg.SLO - m.cfg.Delay.Ctrl - m.cfg.Profile.Latency(1) }

// Each is the GPU time that a request takes in the batches that keep all GPUs busy.
func (m *Model) Each() mono.Dur {
	b := max(1, m.pooled)
	return m.cfg.Profile.Latency(b) / mono.Dur(b)
}

// recently is how many requests come in lostSpan.
func (m *Model) recently() int { return 1 + int(m.spans.perNano()*float64(lostSpan)) }

// lostSpan is for how long the rank remembers what was wanted: what a model that cheaper ones pass lost before is not wanted now.
const lostSpan = 2 * mono.Second

// Forgone is the GPU time that the requests lost between the last two batches
// would have taken in batches like the last one.
func (m *Model) Forgone() mono.Dur { return m.forgone }

// offered takes over what the rank knows.
func (m *Model) offered(gpu Offer) {
	if gpu.GPUs > 0 {
		m.gpus = gpu.GPUs
	}
	if m.share = gpu.Share; m.share == 0 {
		m.share = m.cfg.Share
	}
	m.rivals, m.idle, m.others = gpu.Rivals, gpu.Idle, gpu.Others
	m.retarget()
}

// missed takes a candidate that found no GPU in time into the estimates. How
// late a GPU would have come is not known: later than the last start that would
// have served one request, by as much as a batch takes.
func (m *Model) missed() {
	if m.cfg.Window == WindowDeferred && !m.cold {
		n := min(m.queue.Len(), m.most-1)
		s := m.start(1, n, m.cfg.Profile.Latency(n+1))
		s.missed, s.idle = true, false
		m.opening.learn(s, m.cfg.SLO)
	}
}

// learn takes a batch of b that starts into the estimates. Its frontrun is that of
// all that wait: the instant up to which the batch still grew.
func (m *Model) learn(b int, at mono.Time) {
	m.arrivals.batch(at, m.cfg.SLO)
	if m.cfg.Window == WindowDeferred && !m.cold {
		n := min(m.queue.Len(), m.most-1)
		frontrun := m.deadline(0).Add(-m.cfg.Profile.Latency(n + 1))
		m.opening.learn(m.start(b, n, at.Sub(frontrun)), m.cfg.SLO)
	}
}

// start describes the start of a batch of b while n wait.
func (m *Model) start(b, n int, late mono.Dur) start {
	per, alpha := m.cfg.Profile.Latency(b)/mono.Dur(b), m.slope(n)
	return start{size: b, per: per, fix: max(0, per-alpha), alpha: alpha, gap: m.arrivals.gap(), late: late, rivals: m.rivals, idle: m.idle}
}

func (m *Model) batchFor(now, gpuFree mono.Time) int {
	if m.queue.Len() == 0 {
		return 0
	}
	return min(m.fit(m.deadline(0), now, gpuFree), m.queue.Len())
}

// fit is the largest batch with earliest deadline d that can start now, or
// when the GPU is free. The queue's length does not bound it.
func (m *Model) fit(d, now, gpuFree mono.Time) int {
	p, delay := m.cfg.Profile, m.cfg.Delay
	b := min(m.most, p.Largest(d.Sub(now)-delay.Ctrl, delay.Data))
	if gpuFree > now {
		b = min(b, p.Largest(d.Sub(gpuFree), 0))
	}
	return b
}

func (m *Model) deadline(i int) mono.Time { return mono.Time(m.queue.At(i).Key) }
