package netbench

import (
	"encoding/binary"
	"fmt"

	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Object is one input that a server offers.
type Object struct {
	Request wire.RequestID
	Input   wire.SlabRef
}

// newArena has room for objects of a size, near the way's device.
func newArena(w Way, objects, size int) (*arena.Arena, error) {
	slab := int64(1 << 10)
	for slab < int64(size) {
		slab *= 4 // the arena's sizes
	}
	room := slab * int64(objects)
	if d := transport.DirectOf(w.Network); d != nil {
		return arena.New(room, d)
	}
	return arena.New(room, nil)
}

// stock fills the arena with a server's objects. Their references lack the key that
// only the listener knows: see key.
func stock(a *arena.Arena, objects, size int) (handles []wire.SlabHandle, data [][]byte, err error) {
	for i := range objects {
		h, b, err := a.Alloc(size)
		if err != nil {
			return nil, nil, fmt.Errorf("object %d of %d bytes: %w", i, size, err)
		}
		handles, data = append(handles, h), append(data, b)
	}
	return handles, data, nil
}

// requestOf names object i of a server: no two of a run are alike.
func requestOf(server, i int) wire.RequestID {
	return wire.RequestID(uint64(server+1)<<32 | uint64(i+1))
}

// fill writes what the object must hold: eight bytes follow from the request and
// their place alone, so that swapped and shifted bytes are seen.
func fill(b []byte, r wire.RequestID) {
	var word [8]byte
	for at := 0; at < len(b); at += 8 {
		binary.LittleEndian.PutUint64(word[:], wordAt(r, at/8))
		copy(b[at:], word[:])
	}
}

// firstWrong is where b first differs from what fill writes, looking from a word's
// beginning on; -1: nowhere.
func firstWrong(b []byte, r wire.RequestID, from int) int {
	var word [8]byte
	for at := from / 8 * 8; at < len(b); at += 8 {
		binary.LittleEndian.PutUint64(word[:], wordAt(r, at/8))
		if n := min(8, len(b)-at); string(b[at:at+n]) != string(word[:n]) {
			return at
		}
	}
	return -1
}

// wordAt is splitmix64 (Steele, Lea and Flood, 2014) of request and place: never 0
// in a row, which is what a wiped destination holds.
func wordAt(r wire.RequestID, i int) uint64 {
	z := uint64(r)<<20 + uint64(i)*0x9e3779b97f4a7c15 + 1
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
