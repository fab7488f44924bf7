package transport

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Heart is a link's heartbeat: it measures round trips and the clock offset,
// and notices when the peer falls silent. It has no timer and no socket; the
// transport calls it.
//
// The offset is taken from the sample that can be wrong the least. A round
// trip r bounds the error of its offset by r/2; a sample that is old adds what
// the clocks may have drifted apart since (100 ppm). So the choice is the least
// r + age/5,000 (that is twice 100 ppm of age, as r counts twice too).
//
// The delay bound must hold although only round trips are known for sure: a
// sample's one-way delay, computed with the chosen offset, is wrong by at most
// half of the least round trip. That half is added, and no one-way delay is
// longer than its whole round trip. The bound is the second highest of both
// directions in heartMemory, so one pause of a process does not count; of few
// samples it is the highest. (Of 64: about the 98th percentile. Within a process
// heartbeats are rare, and without the memory two pauses counted for a minute.)
type Heart struct {
	silence mono.Dur         // Immutable.
	clock   func() mono.Time // Immutable; the end's clock, which a test may shift.

	shift   atomic.Int64 // what to add to the peer's instants
	heard   atomic.Int64 // mono.Now of the last byte from the peer
	suspect atomic.Bool  // the last Beat found silence

	mu       sync.Mutex // Guards what follows.
	window   [heartWindow]sample
	samples  int // written in all
	sequence uint64
	known    bool // shift was told by SetShift: samples do not touch it
}

const (
	// heartWindow is 12.8 s of heartbeats every 200 ms.
	heartWindow = 64
	heartMemory = 12_800 * mono.Millisecond
	// heartFew samples are too few to leave the highest out.
	heartFew = 8
)

// driftDiv is 1/(2*100 ppm).
const driftDiv = 5000

// sample is one round trip, with the one-way delays as the two clocks show
// them (so each is off by the clocks' offset).
type sample struct {
	at          mono.Time // our clock, when it ended
	rtt         mono.Dur
	there, back mono.Dur
}

// NewHeart begins with the peer just heard. clock is the end's clock.
func NewHeart(silence mono.Dur, clock func() mono.Time) *Heart {
	h := &Heart{silence: silence, clock: clock}
	h.Heard()
	return h
}

// Heard notes that bytes came from the peer.
func (h *Heart) Heard() { h.heard.Store(int64(mono.Now())) }

// Silent is asked once a heartbeat. It takes two beats in a row to call a peer
// silent: after a pause of this whole process the first beat may come before
// the receiving goroutine had its turn to read what has long arrived.
func (h *Heart) Silent() bool {
	quiet := mono.Now().Sub(mono.Time(h.heard.Load())) > h.silence
	return h.suspect.Swap(quiet) && quiet
}

// AppendPing appends a ping.
func (h *Heart) AppendPing(dst []byte) []byte {
	h.mu.Lock()
	h.sequence++
	p := wire.Ping{Sequence: h.sequence}
	h.mu.Unlock()
	p.Sent = h.clock()
	return p.Append(dst)
}

// AppendPong appends the answer to a ping that arrived just now.
func (h *Heart) AppendPong(dst []byte, p wire.Ping) []byte {
	now := h.clock()
	q := wire.Pong{Sequence: p.Sequence, Sent: p.Sent, Received: now, Replied: now}
	return q.Append(dst)
}

// Pong takes the answer to a ping of ours that arrived just now.
func (h *Heart) Pong(p wire.Pong) { h.Sample(p.Sent, p.Received, p.Replied, h.clock()) }

// Sample takes a round trip: sent and ended on our clock, received and replied
// on the peer's. Impossible ones (a confused or lying peer) are left out.
func (h *Heart) Sample(sent, received, replied, ended mono.Time) {
	s := sample{at: ended, there: received.Sub(sent), back: ended.Sub(replied)}
	s.rtt = s.there + s.back
	if s.rtt < 0 || ended < sent || replied < received {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.window[h.samples%heartWindow] = s
	h.samples++
	if h.known {
		return
	}
	best, least := h.window[0], mono.Dur(0)
	for i, s := range h.live() {
		cost := s.rtt + max(0, ended.Sub(s.at))/driftDiv
		if i == 0 || cost < least {
			best, least = s, cost
		}
	}
	// offset = (there - back)/2 is the peer's clock minus ours.
	h.shift.Store(int64(-(best.there - best.back) / 2))
}

// Shift is the span to add to the peer's instants.
func (h *Heart) Shift() mono.Dur { return mono.Dur(h.shift.Load()) }

// SetShift is for ends that know it exactly, without measuring.
func (h *Heart) SetShift(d mono.Dur) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = true
	h.shift.Store(int64(d))
}

func (h *Heart) live() []sample { return h.window[:min(h.samples, heartWindow)] }

// Stats fills in what the heartbeats measured.
func (h *Heart) Stats(st *LinkStats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st.Offset = -h.Shift()
	st.Samples = len(h.live())
	if st.Samples == 0 {
		return
	}
	last := h.window[(h.samples-1)%heartWindow].at
	var trips, ways [heartWindow]mono.Dur
	least := h.window[0].rtt
	for i, s := range h.live() {
		trips[i] = s.rtt
		least = min(least, s.rtt)
	}
	slices.Sort(trips[:st.Samples])
	st.RTT = trips[st.Samples/2]
	doubt := least / 2
	if h.known {
		doubt = 0
	}
	n := 0 // ways that are young enough
	for _, s := range h.live() {
		if last.Sub(s.at) < heartMemory {
			ways[n] = min(s.rtt, max(s.there-st.Offset, s.back+st.Offset)+doubt)
			n++
		}
	}
	slices.Sort(ways[:n])
	if st.DelayBound = ways[n-1]; n > heartFew {
		st.DelayBound = ways[n-2]
	}
}
