package wire

import "encoding/binary"

// SlabHeader lies beside each slab where a backend can READ it: what the slab
// holds at present. A backend READs it after the slab's bytes; where it does not
// say what the SlabRef says, the bytes may be another request's.
//
//	0  request    uint64, 0: nobody's
//	8  generation uint32
//	12 length     uint32
type SlabHeader struct {
	Request    RequestID
	Generation uint32
	Length     uint32
}

// SlabHeaderSize is a header's length in memory. Headers are aligned to it, so
// that a device reads one in one piece.
const SlabHeaderSize = slabHeader

// DecodeSlabHeader reads the SlabHeaderSize bytes at the start of b.
func DecodeSlabHeader(b []byte) SlabHeader {
	return SlabHeader{Request: RequestID(binary.LittleEndian.Uint64(b)), Generation: binary.LittleEndian.Uint32(b[8:]),
		Length: binary.LittleEndian.Uint32(b[12:])}
}

// Put writes the header to the start of b.
func (h SlabHeader) Put(b []byte) {
	binary.LittleEndian.PutUint32(b[12:], h.Length)
	binary.LittleEndian.PutUint32(b[8:], h.Generation)
	binary.LittleEndian.PutUint64(b, uint64(h.Request))
}

// Holds reports whether the header says that its slab still holds the input that
// ref names, of request r.
func (h SlabHeader) Holds(ref SlabRef, r RequestID) bool {
	return h.Request == r && r != 0 && h.Generation == ref.Handle.Generation() && h.Length == ref.Length
}
