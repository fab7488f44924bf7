package rdmalink

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/wire"
)

// zone is a landing zone as both sides see it.
type zone struct {
	size        int
	head, freed uint32 // the sender's position; the receiver's
	sent        []placed
	told        uint32 // freed, as the sender knows it
}

// most is the largest message.
func (z *zone) most() int { return min(z.size/4, chunkMax) }

// placed is a message in the zone that is not consumed.
type placed struct {
	offset uint32
	n      int
	end    uint32
}

// Whatever the sizes, and however late the receiver frees and tells: both sides
// compute the same positions, no message reaches over the end or into one that is
// not freed, and what a sender may need always fits at last. Positions pass 2^32.
func TestLandingZone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := &zone{size: 1 << rapid.IntRange(10, 20).Draw(t, "size")}
		z.head = -uint32(rapid.IntRange(0, 4*z.size).Draw(t, "before 2^32")) / landingUnit * landingUnit
		z.freed, z.told = z.head, z.head
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				z.free(t)
			case 1:
				z.told = z.freed
			default:
				z.send(t, rapid.IntRange(1, z.most()).Draw(t, "bytes"))
			}
		}
		for len(z.sent) > 0 {
			z.free(t)
		}
		if z.freed != z.head {
			t.Fatalf("all is freed: the receiver is at %d, the sender at %d", z.freed, z.head)
		}
		if z.told = z.freed; !z.send(t, z.most()) {
			t.Fatalf("no room in an empty zone of %d for the largest message", z.size)
		}
	})
}

func (z *zone) send(t *rapid.T, n int) bool {
	ln := &lane{peer: wire.LaneOffer{Landing: wire.RemoteMemory{Size: uint64(z.size)}}, landed: z.head}
	ln.peerFreed.Store(z.told)
	const header = 1
	chunk, offset, ok := ln.land(header, n-header)
	if !ok {
		if ln.landed != z.head {
			t.Fatal("a message that does not fit moved the position")
		}
		return false
	}
	if chunk != n-header {
		t.Fatalf("%d bytes of %d, though it is not too large", chunk, n)
	}
	m := placed{offset, n, ln.landed}
	if offset%landingUnit != 0 || int(offset)+n > z.size {
		t.Fatalf("%d bytes at %d of %d", n, offset, z.size)
	}
	for _, other := range z.sent {
		if offset < other.offset+uint32(other.n) && other.offset < offset+uint32(n) {
			t.Fatalf("%d bytes at %d overwrite %+v", n, offset, other)
		}
	}
	z.sent, z.head = append(z.sent, m), ln.landed
	return true
}

// free consumes the oldest: the receiver knows where it lay and how long it was.
func (z *zone) free(t *rapid.T) {
	if len(z.sent) == 0 {
		return
	}
	m := z.sent[0]
	z.sent = z.sent[1:]
	if z.freed = landingEnd(z.freed, m.offset, m.n, z.size); z.freed != m.end {
		t.Fatalf("behind %+v the receiver is at %d", m, z.freed)
	}
}

// A payload of any size goes in chunks of at most a quarter of the zone, so that
// one can be filled while another is read.
func TestLandCutsPayloads(t *testing.T) {
	const size = 8 << 10
	for _, c := range []struct{ n, rest, want int }{{16, 1, 1}, {16, size/4 - 16, size/4 - 16}, {16, size / 4, size/4 - 16}, {100, 1 << 30, size/4 - 100}} {
		ln := &lane{peer: wire.LaneOffer{Landing: wire.RemoteMemory{Size: size}}}
		chunk, offset, ok := ln.land(c.n, c.rest)
		if chunk != c.want || offset != 0 || !ok {
			t.Errorf("%d bytes behind %d: %d at %d, %v, want %d", c.rest, c.n, chunk, offset, ok, c.want)
		}
	}
}

// Messages without bytes in the zone (SENDs) leave the position alone.
func TestLandingEndOfASend(t *testing.T) {
	if got := landingEnd(192, 0, 0, 1024); got != 192 {
		t.Error(got)
	}
}

// The immediate reaches the whole of the largest zone, and every position in it is
// what the receiver makes of it.
func TestImmediateReachesTheZone(t *testing.T) {
	const size = 1 << 30 // wire's limit
	head := uint32(0)
	for range 10_000 {
		offset, end := landingPlace(head, 1<<20, size)
		if imm := offset / landingUnit; uint64(imm)*landingUnit != uint64(offset) {
			t.Fatalf("offset %d as immediate %d", offset, imm)
		}
		head = end
	}
}
