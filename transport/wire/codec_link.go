package wire

import "github.com/symphony-serving/symphony/transport/mono"

const (
	nameMax    = 64
	textMax    = 200
	addressMax = 128
)

// Append encodes a Hello; welcome sends it as the reply.
func (m *Hello) Append(dst []byte) []byte { return m.append(dst, KindHello) }

// AppendWelcome encodes the same fields as the reply to a Hello.
func (m *Hello) AppendWelcome(dst []byte) []byte { return m.append(dst, KindWelcome) }

func (m *Hello) append(dst []byte, kind Kind) []byte {
	start := len(dst)
	dst = append(begin(dst), byte(m.Role))
	dst = append(putU64(dst, m.Incarnation), m.Token[:]...)
	dst = putStr(dst, m.Name, nameMax)
	if m.Features != 0 {
		dst = putU32(dst, uint32(m.Features))
	}
	return end(dst, start, kind, 0)
}

// Decode reads a Hello's or a Welcome's body.
func (m *Hello) Decode(body []byte) error {
	c := cursor{b: body}
	m.Role, m.Incarnation = Role(c.u8()), c.u64()
	copy(m.Token[:], c.take(len(m.Token)))
	m.Name, m.Features = c.str(nameMax), 0
	if c.err == nil && len(c.b) >= 4 { // a side without features does not write them
		m.Features = Features(c.u32())
	}
	if m.Role < RoleFrontend || m.Role > RoleController {
		c.fail("role %d", m.Role)
	}
	return c.done()
}

// Append encodes a Reject.
func (m *Reject) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(begin(dst), m.Version)
	return end(putStr(dst, m.Text, textMax), start, KindReject, 0)
}

// Decode reads a Reject's body.
func (m *Reject) Decode(body []byte) error {
	c := cursor{b: body}
	m.Version, m.Text = c.u8(), c.str(textMax)
	return c.done()
}

// Append encodes a Ping.
func (m *Ping) Append(dst []byte) []byte {
	start := len(dst)
	return end(putU64(putU64(begin(dst), m.Sequence), uint64(m.Sent)), start, KindPing, 0)
}

// Decode reads a Ping's body.
func (m *Ping) Decode(body []byte) error {
	c := cursor{b: body}
	m.Sequence, m.Sent = c.u64(), mono.Time(c.u64())
	return c.done()
}

// Append encodes a Pong.
func (m *Pong) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU64(putU64(begin(dst), m.Sequence), uint64(m.Sent))
	return end(putU64(putU64(dst, uint64(m.Received)), uint64(m.Replied)), start, KindPong, 0)
}

// Decode reads a Pong's body.
func (m *Pong) Decode(body []byte) error {
	c := cursor{b: body}
	m.Sequence, m.Sent = c.u64(), mono.Time(c.u64())
	m.Received, m.Replied = mono.Time(c.u64()), mono.Time(c.u64())
	return c.done()
}

// Append encodes a Doc whose JSON has n bytes.
func (m *Doc) Append(dst []byte, n int) []byte {
	start := len(dst)
	return end(putU16(begin(dst), uint16(m.Type)), start, KindDoc, n)
}

// Decode reads a Doc's body.
func (m *Doc) Decode(body []byte) error {
	c := cursor{b: body}
	m.Type = DocType(c.u16())
	if m.Type < DocFrontend || m.Type > DocHeld {
		c.fail("document type %d", m.Type)
	}
	return c.done()
}

// Append encodes a Member.
func (m *Member) Append(dst []byte) []byte {
	start := len(dst)
	dst = putU32(putU64(begin(dst), uint64(m.Epoch)), uint32(m.Frontend))
	return end(putU64(putStr(putBool(dst, m.Up), m.Address, addressMax), m.Instance), start, KindMember, 0)
}

// Decode reads a Member's body.
func (m *Member) Decode(body []byte) error {
	c := cursor{b: body}
	m.Epoch, m.Frontend, m.Up = Epoch(c.u64()), FrontendID(c.u32()), c.u8() == 1
	m.Address, m.Instance = c.str(addressMax), c.u64()
	return c.done()
}

// Append encodes a Leave.
func (m *Leave) Append(dst []byte) []byte {
	start := len(dst)
	return end(putU64(begin(dst), uint64(m.Epoch)), start, KindLeave, 0)
}

// Decode reads a Leave's body.
func (m *Leave) Decode(body []byte) error {
	c := cursor{b: body}
	m.Epoch = Epoch(c.u64())
	return c.done()
}
