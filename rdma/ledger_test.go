package rdma

import "testing"

// A ring: what goes in comes out in order, over the end and again.
func TestLedgerIsAQueue(t *testing.T) {
	l := newLedger(5)
	in, out := uint32(0), uint32(0)
	for _, n := range []int{5, -5, 3, -1, 3, -5, 1, -1, 5, -5, 2, 2, -4} {
		for ; n > 0; n-- {
			l.push(sent{id: in})
			in++
		}
		for ; n < 0; n++ {
			if s, ok := l.oldest(); !ok || s.id != out {
				t.Fatalf("the oldest is %d, %v, want %d", s.id, ok, out)
			}
			if s, ok := l.pop(); !ok || s.id != out {
				t.Fatalf("got %d, %v, want %d", s.id, ok, out)
			}
			out++
		}
		if l.len() != int(in-out) || l.room() != 5-int(in-out) {
			t.Fatalf("%d in it, room for %d, want %d", l.len(), l.room(), in-out)
		}
	}
	if _, ok := l.pop(); ok {
		t.Error("something came out of an empty ledger")
	}
}
