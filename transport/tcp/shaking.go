package tcp

import (
	"net"
	"net/netip"
	"slices"
	"time"
)

// shakingMax bounds the handshakes in progress, half-open connections and refused ones
// that part among them: what a flood can take is their memory, 2 KiB and a goroutine each.
const shakingMax = 256

// shaking are a listener's handshakes in progress. The listener's mu guards it.
//
// One more than shakingMax takes the place of the oldest of the source that has the most, once
// that one has had it for placeMin: before, the newcomer waits. A handshake takes four round
// trips, and who stays silent to hold a place is the oldest soon: so a flood takes places from
// itself, and other sources' peers get through, the flood's own host's too.
type shaking struct {
	all     []*handshake // oldest first
	sources map[netip.Addr]int
}

// handshake is one connection's.
type handshake struct {
	conn   *net.TCPConn
	source netip.Addr
	born   time.Time
	gone   bool // it lost its place
}

// placeMin is how long a handshake keeps its place: a busy process may come to it late. Places
// change hands 2,560 times a second by then, so the kernel's queue is served in time still.
const placeMin = 100 * time.Millisecond

// crowded reports whether there is no place yet that a newcomer may take.
func (s *shaking) crowded(now time.Time) bool {
	return len(s.all) >= shakingMax && now.Sub(s.loser().born) < placeMin
}

// enter takes a place, and may take it from another.
func (s *shaking) enter(conn *net.TCPConn) *handshake {
	if len(s.all) >= shakingMax {
		loser := s.loser()
		s.leave(loser)
		loser.gone = true
		loser.conn.Close()
	}
	h := &handshake{conn: conn, born: time.Now()}
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		h.source = a.AddrPort().Addr().Unmap()
	}
	if s.sources == nil {
		s.sources = map[netip.Addr]int{}
	}
	s.all = append(s.all, h)
	s.sources[h.source]++
	return h
}

// loser is the oldest of the source that has the most places.
func (s *shaking) loser() *handshake {
	most := 0
	for _, n := range s.sources {
		most = max(most, n)
	}
	return s.all[slices.IndexFunc(s.all, func(h *handshake) bool { return s.sources[h.source] == most })]
}

// leave gives the place back.
func (s *shaking) leave(h *handshake) {
	i := slices.Index(s.all, h)
	if i < 0 {
		return
	}
	s.all = slices.Delete(s.all, i, i+1)
	if s.sources[h.source]--; s.sources[h.source] == 0 {
		delete(s.sources, h.source)
	}
}

// A listener takes acceptRate connections a second, acceptBurst at once. More wait in
// the kernel's queue, or are turned away there: there they cost the requests of others
// nothing. It is enough for all members of a cluster to come back at once, and a peer
// behind a full queue (4,096) is served before it gives up.
const (
	acceptRate  = 4000
	acceptBurst = 1500
)

// acceptPace says how long to wait before the next accept. Owned by the accepting goroutine.
type acceptPace struct {
	full time.Time // when the burst is whole again
}

// next counts a connection taken at now, and returns how long to wait then.
func (p *acceptPace) next(now time.Time) time.Duration {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(time.Second / acceptRate)
	return p.full.Sub(now) - acceptBurst*time.Second/acceptRate
}
