package parts

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// text is bytes that are made when they are sent, so that they do not count as memory of
// before.
type text func() string

func is(b []byte) text           { return func() string { return string(b) } }
func times(s string, n int) text { return func() string { return strings.Repeat(s, n) } }
func many(s string, n int) text  { return func() string { return strings.Repeat(s+",", n-1) + s } }
func output(n, count int) text {
	return func() string {
		return strings.Repeat(string((&wire.Output{Request: 1}).Append(nil, n))+strings.Repeat("x", n), count)
	}
}

// join is strings and texts, one after the other.
func join(parts ...any) text {
	return func() string {
		var b strings.Builder
		for _, p := range parts {
			if s, ok := p.(string); ok {
				b.WriteString(s)
			} else {
				b.WriteString(p.(text)())
			}
		}
		return b.String()
	}
}

// document is a frame with a document.
func document(t wire.DocType, content text) text {
	return func() string {
		s := content()
		return string((&wire.Doc{Type: t}).Append(nil, len(s))) + s
	}
}

// list is a backend's introduction, and the model list that its digest names.
func list(models text) text {
	return func() string {
		m := models()
		return document(wire.DocBackend, join(fmt.Sprintf(`{"name":"x","pools":[{"device_type":"x","devices":1,"models":%q}]}`, catalog.DigestOf([]byte(m)))))() +
			document(wire.DocModels, join(m))()
	}
}

// rewritten is the frame as another kind's, with the right checksum.
func rewritten(frame text, kind wire.Kind) text {
	return func() string {
		b := []byte(frame())
		b[2] = byte(kind)
		sum := crc32.Update(0, crc32.MakeTable(crc32.Castagnoli), b[:12])
		body := b[wire.HeaderSize:][:binary.LittleEndian.Uint32(b[4:])]
		binary.LittleEndian.PutUint32(b[12:], crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), body))
		return string(b)
	}
}

func noise() string {
	b := make([]byte, 64<<10)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return string(b)
}

// stranger speaks the protocol by hand.
type stranger struct {
	role  wire.Role
	token string
}

// heardMax is how long a stranger listens.
const heardMax = 3 * time.Second

// shake dials and shakes hands; the far side may have refused by then.
func (s stranger) shake(t *testing.T, port string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	h := wire.Hello{Role: s.role, Token: transport.Token(s.token), Name: "stranger"}
	b := h.Append(nil)
	for i := range 4 {
		b = (&wire.Ping{Sequence: uint64(i)}).Append(b)
	}
	c.Write(b)
	return c
}

// sends shakes hands, says the texts, and tells what it heard in words.
func (s stranger) sends(texts ...text) func(*testing.T, string) string {
	return func(t *testing.T, port string) string {
		c := s.shake(t, port)
		defer c.Close()
		go func() {
			for _, text := range texts {
				io.WriteString(c, text()) // it may be cut off in the middle
			}
		}()
		return hear(c)
	}
}

// thrice is sends from three at a time.
func (s stranger) thrice(text text) func(*testing.T, string) string {
	return func(t *testing.T, port string) string {
		told := make(chan string, 3)
		for range 3 {
			go func() { told <- s.sends(text)(t, port) }()
		}
		return <-told + <-told + <-told
	}
}

// hear is what comes in documents and refusals, until the far side ends the connection or
// the stranger is tired of it.
func hear(c net.Conn) (told string) {
	c.SetDeadline(time.Now().Add(heardMax))
	for {
		head := make([]byte, wire.HeaderSize)
		if _, err := io.ReadFull(c, head); err != nil {
			return told
		}
		h, err := wire.ParseHeader(head, wire.PayloadMax)
		if err != nil {
			return told + err.Error()
		}
		rest := make([]byte, h.Body+h.Payload)
		if _, err := io.ReadFull(c, rest); err != nil {
			return told
		}
		var m wire.Reject
		switch {
		case h.Kind == wire.KindReject && m.Decode(rest) == nil:
			told += m.Text + "\n"
		case h.Kind == wire.KindDoc:
			told += string(rest[h.Body:]) + "\n"
		}
	}
}

// raw says something else than the protocol.
func raw(text text) func(*testing.T, string) string {
	return func(t *testing.T, port string) string {
		c, err := net.Dial("tcp", port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go io.WriteString(c, text())
		return hear(c)
	}
}

// slowly says a hello byte by byte.
func slowly(t *testing.T, port string) string {
	c, err := net.Dial("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		for _, b := range (&wire.Hello{Role: wire.RoleBackend}).Append(nil) {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return hear(c)
}

// halfOpen connects often and says nothing.
func halfOpen(t *testing.T, port string) string {
	for range 500 {
		if c, err := net.DialTimeout("tcp", port, time.Second); err == nil {
			defer c.Close()
		}
	}
	time.Sleep(time.Second)
	return ""
}

// silentLinks shake hands and do nothing more.
func silentLinks(t *testing.T, port string) string {
	for range 100 {
		defer stranger{wire.RoleFrontend, secret}.shake(t, port).Close()
	}
	time.Sleep(500 * time.Millisecond)
	return ""
}

// connections come and go as fast as they can.
func connections(t *testing.T, port string) string {
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if c, err := net.DialTimeout("tcp", port, time.Second); err == nil {
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}
	return ""
}

// introductions that are refused, one after the other.
func introductions(t *testing.T, port string) (told string) {
	for range 100 {
		told = stranger{wire.RoleBackend, secret}.sends(document(wire.DocBackend, join(`{}`)))(t, port)
	}
	return told
}
