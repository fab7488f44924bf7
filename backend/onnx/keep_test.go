//go:build cgo

package onnx

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/cgo/onnxrt"
)

// wide is digits-wide, 34 MB of weights, for batches of so many.
func wide(t *testing.T, most int) repository.Model {
	t.Helper()
	load(t)
	m := digits(t)
	m.Path, m.Spec.MaxBatch = strings.Replace(m.Path, "digits-cnn", "digits-wide", 1), most
	return m
}

// wideBlob is its Blob, until the test ends.
func wideBlob(t *testing.T, m repository.Model) *Blob {
	t.Helper()
	b, err := ReadBlob(m.Path, &m.Spec, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// What a session took is there for the next one, no more than the devices' pages come to; what a device kept goes with it.
func TestSessionsKeepMemory(t *testing.T) {
	b := wideBlob(t, wide(t, 32))
	const page, pages = 1 << 20, 100 // two sessions' worth, and a half
	p := newPaged(t, pages)
	weights := func() onnxrt.Pool { w, _ := onnxrt.Pools(); return w }
	before := weights()
	if before.Used != 0 || before.Kept != 0 {
		t.Fatalf("%+v before the first session", before)
	}
	for slot := range 4 {
		p.Put(slot, b)
	}
	for i := range 3 {
		if c := loaded(p, 0); c.Err != nil {
			t.Fatal(c.Err)
		}
		if w := weights(); w.Used < 30<<20 || w.Kept != 0 || i > 0 && w.Mapped != before.Mapped {
			t.Errorf("session %d: %+v, mapped before %d", i, w, before.Mapped)
		}
		unloaded(p, 0)
		if w := weights(); w.Used != 0 || w.Kept < 30<<20 {
			t.Errorf("after session %d: %+v", i, w)
		}
		before = weights()
	}
	for slot := range 4 { // more than there are pages for: ONNX Runtime gets its memory, and nothing is kept
		if c := loaded(p, slot); c.Err != nil {
			t.Fatal(c.Err)
		}
	}
	if w := weights(); w.Kept != 0 || w.Used < 120<<20 {
		t.Errorf("four sessions: %+v", w)
	}
	for slot := range 4 {
		unloaded(p, slot)
		if w, left := weights(), int64(3-slot); w.Kept > max(0, pages*page-left*b.size()) || w.Used < left*30<<20 {
			t.Errorf("%d unloaded: %+v", slot+1, w)
		}
	}
	if w := weights(); w.Kept < 60<<20 {
		t.Errorf("%+v, want two sessions' memory", w)
	}
	onnxrt.Trim()
	if w := weights(); w.Kept != 0 {
		t.Errorf("trimmed: %+v", w)
	}
	loaded(p, 0)
	loaded(p, 1)
	unloaded(p, 0)
	p.Close()
	if w, r := onnxrt.Pools(); w.Used+w.Kept+r.Used+r.Kept != 0 {
		t.Errorf("closed: %+v and %+v", w, r)
	}
}

// What runs need is kept apart from weights, for the largest one: sessions that run by turns share it.
func TestRunsKeepMemory(t *testing.T) {
	m := wide(t, 512) // 4 MB between layers
	b := wideBlob(t, m)
	p := newPaged(t, 100)
	defer p.Close()
	p.Put(0, b)
	p.Put(1, b)
	for slot := range 2 {
		if c := loaded(p, slot); c.Err != nil {
			t.Fatal(c.Err)
		}
	}
	runs := func(n int) onnxrt.Pool {
		t.Helper()
		for i := range n {
			if err := ran(p, i%2, batch(&m.Spec, 512)); err != nil {
				t.Fatal(err)
			}
		}
		_, r := onnxrt.Pools()
		return r
	}
	before := runs(4) // the first runs of a session tell ONNX Runtime how much it needs at once
	if before.Mapped == 0 || before.Kept < 4<<20 {
		t.Fatalf("after the first runs: %+v", before)
	}
	if r := runs(4); r.Mapped != before.Mapped || r.Taken == before.Taken || r.Used != 0 || r.Kept > before.Kept {
		t.Errorf("%+v, before these runs %+v", r, before)
	}
	onnxrt.Trim()
	if _, r := onnxrt.Pools(); r.Kept != 0 {
		t.Errorf("trimmed: %+v", r)
	}
}

// Weights of a model that could not be optimised are weights, too, in copies of their own.
func TestFilesKeepMemory(t *testing.T) {
	m := wide(t, 32)
	b := &Blob{path: m.Path, spec: m.Spec, threads: 1}
	if err := b.readFile(); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p := newPaged(t, 100)
	defer p.Close()
	p.Put(0, b)
	if c := loaded(p, 0); c.Err != nil {
		t.Fatal(c.Err)
	}
	if w, r := onnxrt.Pools(); w.Used < 30<<20 || r.Used >= 30<<20 {
		t.Errorf("weights %+v, runs %+v", w, r)
	}
}
