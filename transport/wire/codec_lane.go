package wire

// Append encodes an offer; AppendAccept the same fields as the reply.
func (m *LaneOffer) Append(dst []byte) []byte { return m.append(dst, KindLaneOffer) }

// AppendAccept encodes the reply to an offer.
func (m *LaneOffer) AppendAccept(dst []byte) []byte { return m.append(dst, KindLaneAccept) }

func (m *LaneOffer) append(dst []byte, kind Kind) []byte {
	start := len(dst)
	dst = putU32(putU32(putU32(begin(dst), m.Generation), m.QPN), m.PSN)
	dst = putU16(append(dst, m.GID[:]...), m.LID)
	dst = append(dst, m.MTU, m.MaxReads)
	dst = putU32(putU16(dst, m.Buffers), m.BufferSize)
	dst = putMemory(putMemory(dst, m.Landing), m.Slabs)
	return end(putU64(putU32(dst, m.Headers), m.Nonce), start, kind, 0)
}

// slabHeader is the size of one of the slab headers.
const slabHeader = 16

// Decode reads an offer's or an accept's body.
func (m *LaneOffer) Decode(body []byte) error {
	c := cursor{b: body}
	m.Generation, m.QPN, m.PSN = c.u32(), c.u32(), c.u32()
	copy(m.GID[:], c.take(len(m.GID)))
	m.LID, m.MTU, m.MaxReads = c.u16(), c.u8(), c.u8()
	m.Buffers, m.BufferSize = c.u16(), c.u32()
	m.Landing, m.Slabs = c.memory(), c.memory()
	m.Headers, m.Nonce = c.u32(), c.u64()
	switch {
	case m.QPN >= 1<<24 || m.PSN >= 1<<24:
		c.fail("queue pair %d, first packet %d: both have 24 bits", m.QPN, m.PSN)
	case m.MTU < 1 || m.MTU > 5 || m.MaxReads < 1:
		c.fail("MTU %d, %d READs at a time", m.MTU, m.MaxReads)
	case m.Buffers < LaneBuffersMin || m.BufferSize < LaneBufferMin || m.BufferSize > LaneBufferMax:
		c.fail("%d receives of %d bytes", m.Buffers, m.BufferSize)
	case m.Landing.Size < 8*uint64(m.BufferSize) || m.Landing.Size > 1<<30 || m.Landing.Size&(m.Landing.Size-1) != 0:
		c.fail("landing zone of %d bytes", m.Landing.Size)
	case uint64(m.Headers)*slabHeader > m.Slabs.Size:
		c.fail("%d slab headers in %d bytes", m.Headers, m.Slabs.Size)
	}
	return c.done()
}

// Append encodes a LaneUp.
func (m *LaneUp) Append(dst []byte) []byte {
	start := len(dst)
	return end(putU32(begin(dst), m.Generation), start, KindLaneUp, 0)
}

// Decode reads a LaneUp's body.
func (m *LaneUp) Decode(body []byte) error {
	c := cursor{b: body}
	m.Generation = c.u32()
	return c.done()
}

// Append encodes a LaneDown.
func (m *LaneDown) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU64(putU32(begin(dst), m.Generation), m.Next)
	return end(putStr(dst, m.Text, textMax), start, KindLaneDown, 0)
}

// Decode reads a LaneDown's body.
func (m *LaneDown) Decode(body []byte) error {
	c := cursor{b: body}
	m.Generation, m.Next, m.Text = c.u32(), c.u64(), c.str(textMax)
	return c.done()
}

// Append encodes a LaneData whose message has n bytes.
func (m *LaneData) Append(dst []byte, n int) []byte {
	start := len(dst)
	return end(putU64(begin(dst), m.Sequence), start, KindLaneData, n)
}

// Decode reads a LaneData's body.
func (m *LaneData) Decode(body []byte) error {
	c := cursor{b: body}
	m.Sequence = c.u64()
	if m.Sequence == 0 {
		c.fail("message 0")
	}
	return c.done()
}

func putMemory(b []byte, m RemoteMemory) []byte {
	return putU32(putU64(putU64(b, m.Address), m.Size), m.RKey)
}

// memory reads a RemoteMemory; one that wraps around the address space is none.
func (c *cursor) memory() RemoteMemory {
	m := RemoteMemory{Address: c.u64(), Size: c.u64(), RKey: c.u32()}
	if m.Address+m.Size < m.Address {
		c.fail("memory of %d bytes at %#x", m.Size, m.Address)
	}
	return m
}
