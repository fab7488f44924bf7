package paged

import "testing"

// A size counts by the model's own of late.
func TestSizes(t *testing.T) {
	var s sizes
	if f := s.fuller(5); f != 0 {
		t.Errorf("of no batches: %v", f)
	}
	for range 300 {
		s.ran(4)
	}
	if f := s.fuller(8); f != 1 {
		t.Errorf("8 after batches of 4: %v, want 1", f)
	}
	s.ran(20)
	if f := s.fuller(5); f != 0 {
		t.Errorf("a batch of 20 after those of 4, and 5: %v, want 0", f)
	}
}
