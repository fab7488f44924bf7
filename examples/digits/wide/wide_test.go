package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/examples/onnxfile"
)

// The model is the same on every machine: its SHA-256 is the pinned one.
func TestModelIsThePinnedOne(t *testing.T) {
	model, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := model.Sum(); err != nil || got != strings.TrimSpace(pinned) {
		t.Errorf("SHA-256 %s, pinned %s, %v", got, strings.TrimSpace(pinned), err)
	}
}

// splitmix64 after its published reference outputs for seed 1234567.
func TestRandomNumbersAreSplitmix64(t *testing.T) {
	reference := []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821}
	for i, v := range integers(1234567, len(reference), middleRange, 0) {
		want := float32(int64((reference[i]>>32)*(2*middleRange+1)>>32) - middleRange)
		if v != want {
			t.Errorf("draw %d is %v, want %v", i, v, want)
		}
	}
}

// What is there and right stays; what is wrong is made again.
func TestRunWritesOnce(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "model.onnx")
	if err := run(out, false); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1, 0)
	if err := os.Chtimes(out, old, old); err != nil {
		t.Fatal(err)
	}
	if err := run(out, false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(out); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("a good file was written again: %v", err)
	}
	if err := os.Truncate(out, 100); err != nil {
		t.Fatal(err)
	}
	if err := run(out, false); err != nil {
		t.Fatal(err)
	}
	if sum, err := onnxfile.SumFile(out); err != nil || sum != strings.TrimSpace(pinned) {
		t.Errorf("a cut file was not made again: %v", err)
	}
}

func TestShortTrainedBytesAreRefused(t *testing.T) {
	if _, err := network(make([]byte, 10)); err == nil || !strings.Contains(err.Error(), "train.py") {
		t.Errorf("got %v", err)
	}
}
