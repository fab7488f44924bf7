package wire

import "github.com/symphony-serving/symphony/transport/mono"

// Append encodes a Lead.
func (m *Lead) Append(dst []byte) []byte {
	start := len(dst)
	return end(putBool(putU64(begin(dst), uint64(m.Epoch)), m.Leads), start, KindLead, 0)
}

// Decode reads a Lead's body.
func (m *Lead) Decode(body []byte) error {
	c := cursor{b: body}
	m.Epoch, m.Leads = Epoch(c.u64()), c.u8() == 1
	return c.done()
}

// Append encodes a Promise.
func (m *Promise) Append(dst []byte) []byte {
	start := len(dst)
	return end(putBool(putU64(begin(dst), uint64(m.Epoch)), m.Keep), start, KindPromise, 0)
}

// Decode reads a Promise's body.
func (m *Promise) Decode(body []byte) error {
	c := cursor{b: body}
	m.Epoch, m.Keep = Epoch(c.u64()), c.u8() == 1
	return c.done()
}

// runningItemSize is a RunningItem's length on the wire.
const runningItemSize = 8 + 8

// Append encodes a Running of at most BatchMax items.
func (m *Running) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU64(putU64(begin(dst), uint64(m.Epoch)), uint64(m.Batch))
	dst = putU64(putU32(putU32(dst, m.Pool), m.Device), uint64(m.Until))
	dst = putU16(dst, uint16(len(m.Items)))
	for _, it := range m.Items {
		dst = putU64(putU64(dst, it.Instance), uint64(it.Request))
	}
	return end(dst, start, KindRunning, 0)
}

// Decode reads a Running's body; shift is added to its instant. Items is reused when its
// capacity allows.
func (m *Running) Decode(body []byte, shift mono.Dur) error {
	c := cursor{b: body}
	m.Epoch, m.Batch = Epoch(c.u64()), BatchID(c.u64())
	m.Pool, m.Device = c.u32(), c.u32()
	m.Until = c.instant(shift)
	n := int(c.u16())
	m.Items = m.Items[:0]
	if n == 0 || n > BatchMax {
		c.fail("batch of %d items, must be 1 to %d", n, BatchMax)
	}
	if c.err == nil && len(c.b) < n*runningItemSize {
		c.take(n * runningItemSize)
	}
	if c.err != nil {
		return c.err
	}
	for range n {
		m.Items = append(m.Items, RunningItem{Instance: c.u64(), Request: RequestID(c.u64())})
	}
	return c.done()
}

// Append encodes a Promised.
func (m *Promised) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU64(putU64(begin(dst), uint64(m.Epoch)), uint64(m.Highest))
	return end(putBool(dst, m.Lost), start, KindPromised, 0)
}

// Decode reads a Promised's body.
func (m *Promised) Decode(body []byte) error {
	c := cursor{b: body}
	m.Epoch, m.Highest = Epoch(c.u64()), Epoch(c.u64())
	m.Lost = c.u8() == 1
	return c.done()
}

// Append encodes a Beat.
func (m *Beat) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU16(putBool(putU64(begin(dst), uint64(m.Epoch)), m.Leads), m.Number)
	dst = putU64(putBool(dst, m.Yields), uint64(m.Every))
	return end(putU16(dst, m.Backends), start, KindBeat, 0)
}

// Decode reads a Beat's body.
func (m *Beat) Decode(body []byte) error {
	c := cursor{b: body}
	m.Epoch, m.Leads, m.Number = Epoch(c.u64()), c.u8() == 1, c.u16()
	m.Yields, m.Every, m.Backends = c.u8() == 1, c.span(), c.u16()
	return c.done()
}
