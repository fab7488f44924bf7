package wire

import "github.com/symphony-serving/symphony/transport/mono"

// Append encodes a Load.
func (m *Load) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU64(putU64(begin(dst), uint64(m.Epoch)), uint64(m.Load))
	dst = putU32(putU32(dst, uint32(m.Model)), uint32(m.GPU))
	dst = append(putU32(putU32(dst, m.Device), m.Pool), byte(m.Op))
	dst = putU64(putU32(dst, uint32(m.Generation)), uint64(m.Earliest))
	return end(putU64(putU64(dst, uint64(m.Latest)), uint64(m.Until)), start, KindLoad, 0)
}

// Decode reads a Load's body; shift is added to its instants.
func (m *Load) Decode(body []byte, shift mono.Dur) error {
	c := cursor{b: body}
	m.Epoch, m.Load = Epoch(c.u64()), LoadID(c.u64())
	m.Model, m.GPU = ModelID(c.u32()), GPUID(c.u32())
	m.Device, m.Pool, m.Op = c.u32(), c.u32(), LoadOp(c.u8())
	m.Generation, m.Earliest = Generation(c.u32()), c.instant(shift)
	m.Latest, m.Until = c.instant(shift), c.instant(shift)
	if c.loadOp(m.Op); m.Generation == 0 && (m.Op != OpUnload || m.Model != ModelNone) {
		c.fail("a load of generation 0")
	}
	return c.done()
}

func (c *cursor) loadOp(op LoadOp) {
	if op != OpLoad && op != OpUnload {
		c.fail("load operation %d", op)
	}
}

// Append encodes a Loaded.
func (m *Loaded) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU64(putU64(begin(dst), uint64(m.Epoch)), uint64(m.Load))
	dst = append(putU32(putU32(putU32(dst, uint32(m.Model)), m.Device), m.Pool), byte(m.Op))
	dst = putU32(putU16(dst, uint16(m.Reason)), uint32(m.Generation))
	dst = putU64(putU64(dst, uint64(m.Start)), uint64(m.End))
	return end(putU32(putU64(dst, m.Copied), m.Free), start, KindLoaded, 0)
}

// Decode reads a Loaded's body; shift is added to its instants.
func (m *Loaded) Decode(body []byte, shift mono.Dur) error {
	c := cursor{b: body}
	m.Epoch, m.Load = Epoch(c.u64()), LoadID(c.u64())
	m.Model, m.Device, m.Pool, m.Op = ModelID(c.u32()), c.u32(), c.u32(), LoadOp(c.u8())
	m.Reason, m.Generation = c.reason(), Generation(c.u32())
	m.Start, m.End = c.instant(shift), c.instant(shift)
	m.Copied, m.Free = c.u64(), c.u32()
	c.loadOp(m.Op)
	return c.done()
}
