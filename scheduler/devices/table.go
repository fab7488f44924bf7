package devices

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// outstandingMax bounds Config.Outstanding.
const outstandingMax = 4

// Config of a Table.
type Config struct {
	// Outstanding is how many undone batches a GPU may have, 1 to 4; 0 means 2:
	// one that runs and one whose inputs are fetched meanwhile.
	Outstanding int
	// ByLatest gives no head starts: a GPU goes to the ready candidate with the
	// least latest, as Algorithm 1 has it. So it is in the schedulers that are
	// compared with ours.
	ByLatest bool
}

// gpu is one device.
type gpu struct {
	life    Life
	present bool
	granted bool
	free    mono.Time // when it is free, by what was planned and reported
	undone  [outstandingMax]run
	undoneN int
}

// run is a batch that was sent and not yet reported.
type run struct {
	batch       wire.BatchID
	exec, until mono.Time
}

// Table is the GPUs of one sub-cluster, by id.
type Table struct {
	cfg    Config
	gpus   []gpu
	tree   tree
	idle   idle
	needs  needs
	count  int          // GPUs present
	demand demand       // of all models together
	last   wire.ModelID // the model granted last
}

// New makes a Table without GPUs.
func New(cfg Config) Table {
	if cfg.Outstanding <= 0 {
		cfg.Outstanding = 2
	}
	cfg.Outstanding = min(cfg.Outstanding, outstandingMax)
	return Table{cfg: cfg}
}

// SetByLatest tells whether candidates get no head starts.
func (t *Table) SetByLatest(on bool) { t.cfg.ByLatest = on }

// Count is the number of GPUs present.
func (t *Table) Count() int { return t.count }

// Len is beyond the largest id that was ever present.
func (t *Table) Len() int { return len(t.gpus) }

// Present tells whether the GPU is.
func (t *Table) Present(id wire.GPUID) bool { return int(id) < len(t.gpus) && t.gpus[id].present }

// Life is the number of the GPU's present life, or of its last one; 0: it had none.
func (t *Table) Life(id wire.GPUID) Life {
	if int(id) >= len(t.gpus) {
		return 0
	}
	return t.gpus[id].life
}

// Holding is the least id below which n GPUs are present; n itself where there are no more.
// O(1) where no id is absent, which is nearly always.
func (t *Table) Holding(n int) uint32 {
	if t.count == len(t.gpus) || n >= t.count {
		return uint32(min(n, math.MaxInt32))
	}
	for id := range t.gpus {
		if t.gpus[id].present {
			n--
		}
		if n <= 0 {
			return uint32(id + 1)
		}
	}
	return uint32(len(t.gpus))
}

// Add begins a new life of a GPU that is free from freeAt on.
func (t *Table) Add(id wire.GPUID, freeAt mono.Time) Life {
	for int(id) >= len(t.gpus) {
		t.gpus = append(t.gpus, gpu{})
	}
	t.tree.grow(len(t.gpus))
	t.idle.grow(len(t.gpus))
	t.Remove(id)
	t.count++
	t.gpus[id] = gpu{life: t.gpus[id].life + 1, present: true, free: freeAt}
	t.place(id)
	return t.gpus[id].life
}

// Remove ends a GPU's life. An answer to a grant under way, and reports of
// its batches, are ignored later.
func (t *Table) Remove(id wire.GPUID) {
	if !t.Present(id) {
		return
	}
	t.count--
	t.gpus[id] = gpu{life: t.gpus[id].life}
	t.place(id)
}

// Grant takes the GPU for a model's candidate until the answer, and appends the grant.
// idle: the GPU was free when the candidate's window opened.
func (t *Table) Grant(id wire.ModelID, u *Usage, c *batching.Candidate, gpu uint32, idle bool, now mono.Time, dst []Grant) []Grant {
	g := &t.gpus[gpu]
	invariants.Check(!g.granted && g.present, "devices: a grant of a GPU that has one under way")
	g.granted = true
	offer := batching.Offer{FreeAt: g.free, GPUs: t.count, Share: t.share(u, now), Rivals: t.last != id, Idle: idle}
	t.last = id
	ready := g.free.Add(-c.Delay)
	due := max(c.Exec.Add(-c.Delay), ready)
	dst = append(dst, Grant{Model: id, GPU: wire.GPUID(gpu), Life: g.life, Due: due, Ready: ready, Offer: offer})
	t.place(wire.GPUID(gpu))
	return dst
}

// Answer takes a model's reply to a grant: the GPU is busy until then. False: the
// GPU has ended the life that was granted, and the answer counts for nothing.
func (t *Table) Answer(a *Answer, u *Usage) bool {
	g := t.alive(a.Grant.GPU, a.Grant.Life)
	if g == nil {
		return false
	}
	g.granted = false
	if a.Batch != 0 {
		invariants.Check(g.undoneN < t.cfg.Outstanding, "devices: more undone batches on a GPU than allowed")
		// What ran before may have been reported late since the grant.
		exec := max(a.Exec, g.free)
		until := exec.Add(a.Until.Sub(a.Exec))
		g.undone[g.undoneN] = run{a.Batch, exec, until}
		g.undoneN++
		g.free = until
		t.SetNeed(u, a.Need, exec)
		w := wants{batches: 1, taken: until.Sub(exec), lost: a.Forgone}
		u.demand.add(exec, w)
		t.demand.add(exec, w)
	}
	t.place(a.Grant.GPU)
	return true
}

// Done takes a backend's report: the batch ended at end, early or late. The
// batch queued behind it, if any, starts at its planned time or at end. False: there
// is no such batch.
func (t *Table) Done(id wire.GPUID, life Life, batch wire.BatchID, end mono.Time) bool {
	g := t.alive(id, life)
	if g == nil {
		return false
	}
	at := -1
	for i := range g.undoneN {
		if g.undone[i].batch == batch {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	copy(g.undone[at:], g.undone[at+1:g.undoneN])
	g.undoneN--
	g.free = end
	for i := at; i < g.undoneN; i++ {
		u := &g.undone[i]
		length := u.until.Sub(u.exec)
		u.exec = max(u.exec, g.free)
		u.until = u.exec.Add(length)
		g.free = u.until
	}
	if at > 0 && at == g.undoneN { // reported before an earlier one: that one still rules
		g.free = max(g.free, g.undone[at-1].until)
	}
	t.place(id)
	return true
}

// alive is the GPU if it still lives the life that is spoken of.
func (t *Table) alive(id wire.GPUID, life Life) *gpu {
	if int(id) >= len(t.gpus) {
		return nil
	}
	g := &t.gpus[id]
	if !g.present || g.life != life {
		return nil
	}
	return g
}

// place puts the GPU's free time into the tree; see invariant 1.
func (t *Table) place(id wire.GPUID) {
	g := &t.gpus[id]
	free := g.free
	if !g.present || g.granted || g.undoneN >= t.cfg.Outstanding {
		free = mono.Never
	}
	t.tree.set(uint32(id), free)
	t.idle.set(uint32(id), g.present && !g.granted && g.undoneN == 0)
}

// FreeAt is when a grant may count with the GPU; Never where it takes none.
func (t *Table) FreeAt(id uint32) mono.Time { return t.tree.least[t.tree.size+int(id)] }

// FirstBy is the smallest id that is free by when.
func (t *Table) FirstBy(when mono.Time) (id uint32, ok bool) { return t.tree.firstBy(when) }

// Soonest is when the first GPU is free; mono.Never when none will be.
func (t *Table) Soonest() mono.Time { return t.tree.soonest() }

// SoonestBelow is Soonest among the ids below n.
func (t *Table) SoonestBelow(n uint32) mono.Time { return t.tree.soonestBelow(n) }
