//go:build cgo

package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// newPaged has pages of 1 MiB.
func newPaged(t *testing.T, pages int) *Paged {
	t.Helper()
	p, err := NewPaged(pages, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// loaded waits for a load's end, unloaded for an unload's, ran for a run's.
func loaded(p *Paged, slot int) executor.Copied {
	done := make(chan executor.Copied, 1)
	p.Load(slot, func(c executor.Copied) { done <- c })
	return <-done
}

func unloaded(p *Paged, slot int) {
	done := make(chan struct{})
	p.Unload(slot, func() { close(done) })
	<-done
}

func ran(d executor.Device, slot int, b *executor.Batch) error {
	done := make(chan error, 1)
	b.Model, b.Finish = slot, func(_, _ mono.Time, err error) { done <- err }
	d.Launch(b)
	return <-done
}

// Sessions come from memory and go, again and again, and give what one from the file gives; without one nothing runs.
func TestPagedDevice(t *testing.T) {
	load(t)
	m := digits(t)
	want := batch(&m.Spec, 3)
	whole, err := Open(m.Path, &m.Spec, 1)
	if err == nil {
		err = whole.Run(want)
		whole.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := ReadBlob(m.Path, &m.Spec, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, size, took, err := b.Measure()
	if err != nil || size < int64(len(b.data.Bytes())) || took <= 0 {
		t.Fatalf("%d bytes, %v, %v", size, took, err)
	}
	s.Close()
	p := newPaged(t, 9)
	p.Put(2, b)
	if err := ran(p, 2, batch(&m.Spec, 1)); !errors.Is(err, errNoModel) {
		t.Errorf("it runs without a session: %v", err)
	}
	for range 3 {
		if c := loaded(p, 2); c.Err != nil || c.Bytes != int64(len(b.data.Bytes())) || c.End <= c.Start {
			t.Fatalf("%+v", c)
		}
		got := batch(&m.Spec, 3)
		if err := ran(p, 2, got); err != nil {
			t.Fatal(err)
		}
		for i := range got.Outputs {
			if !bytes.Equal(got.Outputs[i], want.Outputs[i]) {
				t.Errorf("item %d has another output than from the file", i)
			}
		}
		unloaded(p, 2)
	}
	if p.Take(2) != b || p.Take(7) != nil || loaded(p, 2).Err == nil || p.Pages() != 9 {
		t.Error("a model that was taken away is loaded")
	}
	p.Put(0, b)
	p.Load(0, func(executor.Copied) {}) // Close waits for it
	p.Close()
	p.Load(0, func(executor.Copied) { t.Error("a load begins after Close") })
	p.Unload(0, func() { t.Error("an unload begins after Close") })
	goleak.VerifyNone(t)
}

// Sessions use the bytes that they are made of, and have them until they are closed, whoever has closed the Blob.
func TestSessionsKeepTheirBytes(t *testing.T) {
	load(t)
	m := digits(t)
	b, err := ReadBlob(m.Path, &m.Spec, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && !b.optimised {
		t.Fatal("digits-cnn is not kept as ONNX Runtime has optimised it")
	}
	var all []*Session
	for range 2 {
		s, err := b.Open()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	b.Close()
	b = nil
	runtime.GC()
	want := batch(&m.Spec, 3)
	whole, err := Open(m.Path, &m.Spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if err := whole.Run(want); err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		got := batch(&m.Spec, 3)
		if err := s.Run(got); err != nil {
			t.Fatal(err)
		}
		for k := range got.Outputs {
			if !bytes.Equal(got.Outputs[k], want.Outputs[k]) {
				t.Errorf("session %d, item %d: another output than from the file", i, k)
			}
		}
		of := s.of
		s.Close()
		if of != nil && (of.data.Bytes() == nil) != (i == len(all)-1) {
			t.Errorf("with %d sessions closed of %d the bytes are gone: %v", i+1, len(all), of.data.Bytes() == nil)
		}
	}
}

// What ONNX Runtime cannot put into its own format is served from the file.
func TestFileInPlaceOfTheOptimised(t *testing.T) {
	load(t)
	m := digits(t)
	b := &Blob{path: m.Path, spec: m.Spec, threads: 1}
	if err := b.readFile(); err != nil {
		t.Fatal(err)
	}
	s, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if b.Close(); b.data.Bytes() != nil || s.of != nil {
		t.Error("the session has its own copy of the weights, and the file is kept")
	}
	if err := s.Run(batch(&m.Spec, 2)); err != nil {
		t.Error(err)
	}
}

// A file that is none, or not the one that the configuration describes, is an error with its name.
func TestBlobsThatAreNone(t *testing.T) {
	load(t)
	m := digits(t)
	if _, err := ReadBlob(filepath.Join(t.TempDir(), "none.onnx"), &m.Spec, 1, nil); !errors.Is(err, ErrModel) {
		t.Errorf("%v", err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, []byte("no model"), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := ReadBlob(path, &m.Spec, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, _, _, err := b.Measure(); !errors.Is(err, ErrModel) {
		t.Errorf("%v", err)
	}
	p := newPaged(t, 1)
	defer p.Close()
	p.Put(0, b)
	if c := loaded(p, 0); !errors.Is(c.Err, ErrModel) {
		t.Errorf("%+v", c)
	}
	other := m.Spec
	other.Inputs = append(other.Inputs[:0:0], other.Inputs...)
	other.Inputs[0].Name = "other"
	if b, err = ReadBlob(m.Path, &other, 1, nil); err == nil {
		_, _, _, err = b.Measure()
	}
	if !errors.Is(err, ErrModel) {
		t.Errorf("%v", err)
	}
}

// Files lie outside the Go heap, and are gone once their Blob is.
func TestBlobMemory(t *testing.T) {
	load(t)
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc/self/smaps")
	}
	m := digits(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	const size = 64 << 20
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapSys - s.HeapReleased)
	}
	before := heap()
	b, err := ReadBlob(path, &m.Spec, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if grown := heap() - before; grown > size/2 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	at := addressOf(b)
	if !resident(t, at, size) {
		t.Error("the Blob is not in memory")
	}
	b.Close()
	if resident(t, at, size) {
		t.Error("a Blob that is closed keeps its memory")
	}
	if b, err = ReadBlob(path, &m.Spec, 1, nil); err != nil {
		t.Fatal(err)
	}
	at = addressOf(b)
	b = nil
	for range 100 {
		runtime.GC()
		if !resident(t, at, size) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("a Blob that nobody has keeps its memory")
}

// addressOf is where a Blob's bytes begin, as a number that keeps nothing alive.
func addressOf(b *Blob) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b.data.Bytes()))) }

// resident says whether the size bytes from an address are mapped and in memory, as the kernel counts: the process's sum would
// also tell what a collector, a malloc or the race detector gave back meanwhile.
func resident(t *testing.T, at uintptr, size uint64) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		var from, to, rss uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= uint64(at) && uint64(at)+size <= to
		} else if n, _ := fmt.Sscanf(line, "Rss: %d kB", &rss); n == 1 && inside {
			return rss<<10 >= size
		}
	}
	return false
}
