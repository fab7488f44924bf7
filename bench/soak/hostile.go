package soak

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/frontend/ingress/malformed"
)

// ports are all that parts listen on.
func (c *cluster) ports() (all, web []string) {
	for _, t := range c.parts {
		_, _, listen := t.now()
		all = append(all, listen...)
	}
	for _, t := range c.frontends {
		_, _, listen := t.now()
		web = append(web, listen[0])
	}
	return all, web
}

// throwMax is how long a port has to take or refuse what is thrown at it.
const throwMax = 3 * time.Second

// throw writes bytes to a port, hears a little, and hangs up, by turns with FIN and RST.
func throw(address string, b []byte, reset bool) {
	conn, err := net.DialTimeout("tcp", address, throwMax)
	if err != nil {
		return // full: an answer, too
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(throwMax))
	_, _ = conn.Write(b)
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, _ = conn.Read(make([]byte, 512))
	if t, ok := conn.(*net.TCPConn); ok && reset {
		_ = t.SetLinger(0)
	}
}

// garbage throws random bytes and half frames at every port, and malformed requests at
// the HTTP ones, whose answers it checks.
func (c *cluster) garbage(seed uint64) (wrong []string) {
	r := rand.New(rand.NewPCG(seed, 0x67617262))
	all, web := c.ports()
	for _, address := range all {
		for i := range 8 {
			throw(address, rubbish(r, i), i%2 == 0)
		}
	}
	m := c.cfg.Models[0]
	cases := malformed.Cases(malformed.Target{Model: m.Name, Input: "input", Output: "output", Shape: []int64{int64(m.Floats)}, Batch: true, BodyMax: bodyMax})
	r.Shuffle(len(cases), func(i, k int) { cases[i], cases[k] = cases[k], cases[i] })
	sent := 0
	for _, k := range cases {
		if k.Slow || sent == 20 {
			continue
		}
		sent++
		if err := malformed.Fire(web[r.IntN(len(web))], k, 10*time.Second); err != nil {
			wrong = append(wrong, fmt.Sprintf("malformed request %q: %v", k.Name, err))
		}
	}
	return wrong
}

// rubbish is bytes of several sorts: at random, a length without its body, a hello cut.
func rubbish(r *rand.Rand, sort int) []byte {
	b := make([]byte, 1+r.IntN(4096))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	switch sort % 4 {
	case 1: // a small length first, as a frame begins, and less than that
		copy(b, []byte{byte(len(b)), byte(len(b) >> 8), 0, 0})
		return b[:max(1, len(b)/2)]
	case 2: // zeros
		clear(b)
	case 3: // the largest lengths
		for i := range min(16, len(b)) {
			b[i] = 0xff
		}
	}
	return b
}

// slowLoris opens connections that send an HTTP request byte by byte.
func slowLoris(address string, connections int, hold time.Duration) {
	var wait sync.WaitGroup
	for range connections {
		wait.Add(1)
		go func() {
			defer wait.Done()
			conn, err := net.DialTimeout("tcp", address, throwMax)
			if err != nil {
				return
			}
			defer conn.Close()
			_, err = io.WriteString(conn, "POST /v2/models/x/infer HTTP/1.1\r\nHost: a\r\nX-Slow: ")
			for end := time.Now().Add(hold); err == nil && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
				_, err = conn.Write([]byte{'a'})
			}
		}()
	}
	wait.Wait()
}

// flood opens and drops connections to every port.
func (c *cluster) flood(each int) {
	all, _ := c.ports()
	for _, address := range all {
		var open []net.Conn
		for i := range each {
			conn, err := net.DialTimeout("tcp", address, throwMax)
			if err != nil {
				break
			}
			open = append(open, conn)
			if t, ok := conn.(*net.TCPConn); ok && i%2 == 0 {
				_ = t.SetLinger(0)
			}
		}
		for _, conn := range open {
			conn.Close()
		}
	}
}
