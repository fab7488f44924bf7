package estimate

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Key says what was done: with Size 0 the model's weights were loaded, otherwise a batch
// of that size was executed.
type Key struct {
	Model wire.ModelID
	Size  int
}

// Table has the windows of all keys, and the errors of both kinds. The zero Table is empty.
type Table struct {
	models     [][]row // by id; each in rising order of size
	load, exec Errors
}

// row is the window of one size of a model.
type row struct {
	size   int
	window Window
}

// Seed begins a key anew, with what it took at the reference clock when it was measured before.
func (t *Table) Seed(k Key, d mono.Dur) { t.row(k).window = Seeded(d) }

// Forget drops all keys of a model.
func (t *Table) Forget(id wire.ModelID) {
	if int(id) < len(t.models) {
		t.models[id] = nil
	}
}

// Add takes a measurement on a GPU of that clock, and its error. A key that is not known begins
// with it, and has no error.
func (t *Table) Add(k Key, at Clock, took mono.Dur) {
	if planned, ok := t.exactly(k); ok {
		t.Errors(k.Size == 0).Add(took - told(k, planned, at))
	}
	if k.Size != 0 {
		took = Scale(took, at, Reference)
	}
	t.row(k).window.Add(took)
}

// Estimate is what the key is planned to take at a clock: its p99. A size without a window takes what
// the next larger one takes: it is run as that, or is quicker. false: there is none.
func (t *Table) Estimate(k Key, at Clock) (mono.Dur, bool) {
	d, ok := t.exactly(k)
	if ok {
		return told(k, d, at), true
	}
	if k.Size == 0 || int(k.Model) >= len(t.models) {
		return 0, false
	}
	rows := t.models[k.Model]
	i, _ := find(rows, k.Size)
	if i == len(rows) {
		return 0, false
	}
	return told(k, rows[i].window.P99(), at), true
}

// Off reports whether the key takes, at the reference clock, over 5 % more or less than is planned
// with. It waits until the window is all measurements: a seed is often what was planned with.
func (t *Table) Off(k Key, planned mono.Dur) bool {
	if int(k.Model) >= len(t.models) {
		return false
	}
	i, ok := find(t.models[k.Model], k.Size)
	if !ok || t.models[k.Model][i].window.Measured() < Size {
		return false
	}
	off := t.models[k.Model][i].window.P99() - planned
	return max(off, -off) > planned/20
}

// Errors are those of loads, or of executions, at the clocks at which they ran.
func (t *Table) Errors(loads bool) *Errors {
	if loads {
		return &t.load
	}
	return &t.exec
}

// told is an estimate that is kept, for a clock.
func told(k Key, d mono.Dur, at Clock) mono.Dur {
	if k.Size == 0 {
		return d
	}
	return Scale(d, Reference, at)
}

// exactly is the estimate of the key's own window, as it is kept.
func (t *Table) exactly(k Key) (mono.Dur, bool) {
	if int(k.Model) >= len(t.models) {
		return 0, false
	}
	i, ok := find(t.models[k.Model], k.Size)
	if !ok {
		return 0, false
	}
	return t.models[k.Model][i].window.P99(), true
}

// row is the key's row, which begins when it is first asked for.
func (t *Table) row(k Key) *row {
	for int(k.Model) >= len(t.models) {
		t.models = append(t.models, nil)
	}
	rows := &t.models[k.Model]
	i, ok := find(*rows, k.Size)
	if !ok {
		*rows = slices.Insert(*rows, i, row{size: k.Size})
	}
	return &(*rows)[i]
}

// find is where the size is, or would be.
func find(rows []row, size int) (int, bool) {
	return slices.BinarySearchFunc(rows, size, func(r row, size int) int { return r.size - size })
}
