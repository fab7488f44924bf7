package ingress

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

func outputSpec(bytes int64) *catalog.ModelSpec {
	return &catalog.ModelSpec{Name: "m", Version: "1", MaxBatch: 8, Outputs: []catalog.TensorSpec{{Name: "y", Type: catalog.Uint8, Shape: []int64{bytes}}}}
}

// Room for outputs is taken and given back; what never fits is told so, and what does not fit now may come again.
func TestRoomForOutputs(t *testing.T) {
	s := &Server{cfg: Config{OutputsMax: 10 << 20, FullStatus: 429}}
	s.stats = newStatistics(nil)
	s.cfg.Client = noModels{}
	held, err := s.Hold(outputSpec(1), 6<<20)
	if err != nil || held != 6<<20 || !s.Crowded() {
		t.Fatalf("%d, %v", held, err)
	}
	for n, want := range map[int64]int{5 << 20: 429, 11 << 20: 400} {
		_, err := s.Hold(outputSpec(1), n)
		if r := (*refusal)(nil); !errors.As(err, &r) || r.status != want || r.reason != "memory" || !strings.Contains(r.msg, "frontend.outputs_max") {
			t.Errorf("%d bytes: %v, want %d", n, err, want)
		}
	}
	s.Unhold(held)
	if n := s.outputs.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
	if held, err := s.Hold(outputSpec(1), largeReply-1); held != 0 || err != nil {
		t.Errorf("%d, %v: small ones are not counted", held, err)
	}
}

type noModels struct{ Inferrer }

func (noModels) Model(string, string) (catalog.Entry, error) {
	return catalog.Entry{}, errors.New("none")
}

// A large reply is all of its pieces, in both ways of being read, and gives its room back once.
func TestLargeBody(t *testing.T) {
	s := &Server{cfg: Config{OutputsMax: 10 << 20}}
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, way := range []func(r *largeBody) ([]byte, error){
		func(r *largeBody) ([]byte, error) { return io.ReadAll(struct{ io.Reader }{r}) },
		func(r *largeBody) ([]byte, error) {
			var b bytes.Buffer
			_, err := r.WriteTo(&b)
			return b.Bytes(), err
		},
	} {
		s.outputs.Store(100)
		r := &largeBody{s: s, held: 100, pieces: [][]byte{want[:10], want[10:11], want[11:]}}
		if r.size() != len(want) {
			t.Errorf("%d bytes", r.size())
		}
		if got, err := way(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		r.Close()
		r.Close()
		if n := s.outputs.Load(); n != 0 {
			t.Errorf("%d bytes are held", n)
		}
	}
}
