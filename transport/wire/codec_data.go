package wire

import "github.com/symphony-serving/symphony/transport/mono"

// Append encodes a Submit.
func (m *Submit) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU32(putU64(begin(dst), uint64(m.Request)), uint32(m.Model))
	dst = putU64(putU64(dst, uint64(m.Arrival)), uint64(m.Deadline))
	dst = append(putSlab(dst, m.Input), byte(m.Priority), byte(m.Class))
	dst = putU32(putU16(dst, m.Application), m.App)
	dst = append(putU32(putU16(dst, m.Accuracy), m.Cost), byte(m.Suspicion))
	return end(dst, start, KindSubmit, 0)
}

// Decode reads a Submit's body; shift is added to its instants.
func (m *Submit) Decode(body []byte, shift mono.Dur) error {
	c := cursor{b: body}
	m.Request, m.Model = RequestID(c.u64()), ModelID(c.u32())
	m.Arrival, m.Deadline = c.instant(shift), c.instant(shift)
	m.Input = c.slab()
	m.Priority, m.Class = Priority(c.u8()), Class(c.u8())
	m.Application, m.App = c.u16(), c.u32()
	m.Accuracy, m.Cost = c.u16(), c.u32()
	m.Suspicion = c.suspicion()
	switch {
	case m.Class >= classEnd:
		c.fail("class %d", m.Class)
	case m.Accuracy > AccuracyOne:
		c.fail("accuracy %d of %d", m.Accuracy, AccuracyOne)
	}
	return c.done()
}

// Append encodes a Cancel.
func (m *Cancel) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU32(putU64(begin(dst), uint64(m.Request)), uint32(m.Model))
	return end(putU64(dst, uint64(m.Deadline)), start, KindCancel, 0)
}

// Decode reads a Cancel's body; shift is added to its instant.
func (m *Cancel) Decode(body []byte, shift mono.Dur) error {
	c := cursor{b: body}
	m.Request, m.Model, m.Deadline = RequestID(c.u64()), ModelID(c.u32()), c.instant(shift)
	return c.done()
}

// Append encodes an Answer.
func (m *Answer) Append(dst []byte) []byte {
	start := len(dst)
	return end(putU16(putU64(begin(dst), uint64(m.Request)), uint16(m.Reason)), start, KindAnswer, 0)
}

// Decode reads an Answer's body.
func (m *Answer) Decode(body []byte) error {
	c := cursor{b: body}
	m.Request, m.Reason = RequestID(c.u64()), c.reason()
	return c.done()
}

// itemSize is a BatchItem's length on the wire.
const itemSize = 8 + 4 + 8 + 24 + 1

// Append encodes a Batch of at most BatchMax items.
func (m *Batch) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU64(putU64(begin(dst), uint64(m.Epoch)), uint64(m.Batch))
	dst = putU32(putU32(dst, uint32(m.Model)), uint32(m.GPU))
	dst = putU32(putU32(dst, m.Device), m.Pool)
	dst = putU64(putU64(dst, uint64(m.Exec)), uint64(m.Until))
	dst = putU32(putU64(dst, uint64(m.Latest)), uint32(m.Generation))
	dst = putU16(dst, uint16(len(m.Items)))
	for i := range m.Items {
		it := &m.Items[i]
		dst = putU32(putU64(dst, uint64(it.Request)), uint32(it.Frontend))
		dst = append(putSlab(putU64(dst, uint64(it.Deadline)), it.Input), byte(it.Suspicion))
	}
	return end(dst, start, KindBatch, 0)
}

// Decode reads a Batch's body; shift is added to its instants. Items is
// reused when its capacity allows.
func (m *Batch) Decode(body []byte, shift mono.Dur) error {
	c := cursor{b: body}
	m.Epoch, m.Batch = Epoch(c.u64()), BatchID(c.u64())
	m.Model, m.GPU = ModelID(c.u32()), GPUID(c.u32())
	m.Device, m.Pool = c.u32(), c.u32()
	m.Exec, m.Until = c.instant(shift), c.instant(shift)
	m.Latest, m.Generation = c.instant(shift), Generation(c.u32())
	n := int(c.u16())
	m.Items = m.Items[:0]
	if n == 0 || n > BatchMax {
		c.fail("batch of %d items, must be 1 to %d", n, BatchMax)
	}
	if c.err == nil && len(c.b) < n*itemSize {
		c.take(n * itemSize)
	}
	if c.err != nil {
		return c.err
	}
	for range n {
		it := BatchItem{Request: RequestID(c.u64()), Frontend: FrontendID(c.u32()), Deadline: c.instant(shift)}
		it.Input, it.Suspicion = c.slab(), c.suspicion()
		m.Items = append(m.Items, it)
	}
	return c.done()
}

// Append encodes a Done.
func (m *Done) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU64(putU64(begin(dst), uint64(m.Epoch)), uint64(m.Batch))
	dst = putU64(putU64(dst, uint64(m.Ready)), uint64(m.Start))
	dst = putU64(putU64(dst, uint64(m.End)), uint64(m.Fetch))
	dst = append(putU16(putU16(putU16(dst, m.Ran), m.Failed), uint16(m.Reason)), byte(m.Flags))
	return end(dst, start, KindDone, 0)
}

// Decode reads a Done's body; shift is added to its instants.
func (m *Done) Decode(body []byte, shift mono.Dur) error {
	c := cursor{b: body}
	m.Epoch, m.Batch = Epoch(c.u64()), BatchID(c.u64())
	m.Ready, m.Start, m.End = c.instant(shift), c.instant(shift), c.instant(shift)
	m.Fetch = c.span()
	m.Ran, m.Failed, m.Reason = c.u16(), c.u16(), c.reason()
	m.Flags = OutputFlags(c.u8())
	return c.done()
}

// Append encodes a Read.
func (m *Read) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU64(putU64(begin(dst), m.Sequence), uint64(m.Request))
	return end(putSlab(dst, m.Input), start, KindRead, 0)
}

// Decode reads a Read's body.
func (m *Read) Decode(body []byte) error {
	c := cursor{b: body}
	m.Sequence, m.Request = c.u64(), RequestID(c.u64())
	m.Input = c.slab()
	return c.done()
}

// Append encodes a ReadReply whose payload has n bytes.
func (m *ReadReply) Append(dst []byte, n int) []byte {
	start := len(dst)
	return end(putU16(putU64(begin(dst), m.Sequence), uint16(m.Reason)), start, KindReadReply, n)
}

// Decode reads a ReadReply's body.
func (m *ReadReply) Decode(body []byte) error {
	c := cursor{b: body}
	m.Sequence, m.Reason = c.u64(), c.reason()
	return c.done()
}

// Append encodes an Output whose payload has n bytes.
func (m *Output) Append(dst []byte, n int) []byte {
	start := len(dst)
	dst = putU16(putU64(begin(dst), uint64(m.Request)), uint16(m.Reason))
	dst = putU32(putU16(dst, m.BatchSize), uint32(m.Device))
	dst = putU64(putU64(dst, uint64(m.Fetch)), uint64(m.Execute))
	dst = putU64(putU64(dst, uint64(m.Start)), uint64(m.Epoch))
	dst = append(putU64(putU64(dst, uint64(m.Batch)), uint64(m.Ready)), byte(m.Flags))
	dst = putU32(putU32(putU32(dst, uint32(m.Model)), m.Offset), m.Total)
	return end(dst, start, KindOutput, n)
}

// Decode reads an Output's body; shift is added to its instants.
func (m *Output) Decode(body []byte, shift mono.Dur) error {
	c := cursor{b: body}
	m.Request, m.Reason = RequestID(c.u64()), c.reason()
	m.BatchSize, m.Device = c.u16(), GPUID(c.u32())
	m.Fetch, m.Execute, m.Start = c.span(), c.span(), c.instant(shift)
	m.Epoch, m.Batch, m.Ready = Epoch(c.u64()), BatchID(c.u64()), c.instant(shift)
	m.Flags, m.Model = OutputFlags(c.u8()), ModelID(c.u32())
	m.Offset, m.Total = c.u32(), c.u32()
	if m.Total > OutputMax || m.Offset > m.Total {
		c.fail("part at byte %d of an output of %d, at most %d", m.Offset, m.Total, OutputMax)
	}
	return c.done()
}
