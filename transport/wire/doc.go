// Package wire is the language of the system: identifiers and fixed-layout
// messages, with their encoding. It knows no socket, no clock and no lock.
//
// # Frames
//
// Everything that crosses a link is a frame, little-endian:
//
//	0  'S'            magic
//	1  version        Version; a peer of another version is told so (Reject)
//	2  kind           Kind
//	3  flags          0
//	4  body length    uint32, at most BodyMax
//	8  payload length uint32, at most PayloadMax (tensors, documents)
//	12 crc32c         over bytes 0..11 and the body; the payload is not
//	                  covered: TCP and RDMA guard it, and tensors are large
//	16 body, then payload
//
// Header and Reject keep this layout in every version: that is how two sides
// of different versions can still tell each other so.
//
// # Clocks
//
// Instants inside a body are on the sender's clock. Every Decode of a message
// that carries instants takes shift, the span to add to the sender's instants
// to get ours; the link knows it (transport.Link.Shift). So no instant can be
// read without saying how far the clocks lie apart.
//
// # Codec convention
//
// Every message M has
//
//	func (m *M) Append(dst []byte) []byte   // a whole frame but its payload bytes
//	func (m *M) Decode(body []byte, shift mono.Dur) error   // shift only if it has instants
//
// Append of a message with a payload takes the payload's length as a second
// argument and the caller sends the bytes behind it. Neither allocates (texts
// of Hello, Reject and Member excepted: they are for people and for once).
//
// Every field of a body is checked against its bounds: reasons, roles, counts
// and texts; a body that is too short is ErrShort, one that is longer carries
// fields that a later build added at its end, which are ignored.
//
// # Invariants
//
//  1. Decode of any bytes returns an error or a message; it never panics and
//     never allocates more than the body's own length.
//  2. The bytes of every message are pinned by testdata/golden.txt: a changed
//     line there is a changed protocol and asks for another Version.
//
// # Rejected
//
// Protocol buffers (four times the time, allocations, and a shift between
// clocks cannot be forced on the reader); one checksum over the payload too
// (150 KB cost 15 us a side, and TCP and RDMA carry their own).
package wire
