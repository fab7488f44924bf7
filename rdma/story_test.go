package rdma_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport/mono"
)

// story is one random life of a Conn: what is posted, and what befalls it.
type story struct {
	*rand.Rand
	rig    rig
	posted []uint32 // that a took, in order
	ops    map[uint32]rdma.Opcode
	next   uint32
	said   []string // what happened, for whom it fails
}

// Invariant 1 of doc.go: every work request completes once and in order, as
// success up to some point and as an error from there on, whatever happens.
func TestEverySendCompletesOnceAndInOrder(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 80
	}
	// Many at a time: most of a story is waiting, up to half a second for a device
	// that does not flush.
	var telling sync.WaitGroup
	slots := make(chan struct{}, 24)
	for seed := range seeds {
		slots <- struct{}{}
		telling.Go(func() {
			defer func() { <-slots }()
			s := &story{Rand: rand.New(rand.NewPCG(seed, 4)), ops: map[uint32]rdma.Opcode{}}
			if err := s.tell(); err != nil {
				t.Errorf("seed %d: %v\n%v", seed, err, s.said)
			}
		})
	}
	telling.Wait()
}

func (s *story) tell() (err error) {
	f := fakeverbs.New(fakeverbs.Config{RetryDelay: 2 * mono.Millisecond, RNRPause: 100 * mono.Microsecond})
	s.rig.fabric = f
	c := rdma.Config{Poll: rdma.PollMode(s.IntN(2) * 2)} // adaptive or sleeping: busy ones would take turns
	depths := rdma.ConnConfig{SendDepth: 4 + s.IntN(20), RecvDepth: 64}
	for _, x := range []struct {
		host string
		to   **side
	}{{"a", &s.rig.a}, {"b", &s.rig.b}} {
		if *x.to, err = newSide(f.Host(x.host), c); err != nil {
			return err
		}
		if err = (*x.to).connection(depths); err != nil {
			return err
		}
	}
	a, b := s.rig.a, s.rig.b
	b.told.onReceived = func(id uint32) { _ = b.conn.PostReceives(b.receives(id, 1)) } // fails once b has
	if err = b.conn.PostReceives(b.receives(0, 32)); err == nil {
		err = join(a, b)
	}
	if err != nil {
		return err
	}
	for range 5 + s.IntN(30) {
		if err = s.step(); err != nil {
			break
		}
	}
	if s.IntN(2) == 0 {
		f.Thaw()
		time.Sleep(time.Duration(s.IntN(3000)) * time.Microsecond)
	}
	first, second := a, b
	if s.IntN(2) == 0 {
		first, second = b, a
	}
	err = errors.Join(err, first.close(), second.close(), s.judge())
	if open := f.Open(); open != (fakeverbs.Counts{}) {
		err = errors.Join(err, fmt.Errorf("left open: %+v", open))
	}
	return err
}

// step posts, mostly, or breaks something.
func (s *story) step() error {
	a := s.rig.a
	nic := s.rig.fabric.Host("a").NIC("fake0")
	switch k := s.IntN(40); {
	case k < 30:
		return s.post()
	case k < 31:
		s.say("FailNext")
		all := []rdma.Status{rdma.StatusRemoteAccess, rdma.StatusRetryExceeded, rdma.StatusLocalProtection, rdma.StatusRNRExceeded}
		nic.FailNext(0, all[s.IntN(len(all))])
	case k < 32:
		s.say("Fail")
		a.conn.Fail(errors.New("the user has enough"))
	case k < 33:
		s.say("the peer dies")
		s.rig.fabric.Host("b").Kill()
	case k < 34 && s.IntN(3) == 0: // its Close waits in vain
		s.say("our device dies")
		nic.Kill()
	case k < 36:
		s.say("Freeze")
		s.rig.fabric.Freeze()
	case k < 37:
		s.rig.fabric.Thaw()
	case k < 38:
		s.say("Delay")
		s.rig.fabric.SetDelay(mono.Dur(s.IntN(300)) * mono.Microsecond)
	default:
		time.Sleep(time.Duration(s.IntN(500)) * time.Microsecond)
	}
	return nil
}

func (s *story) say(what string) { s.said = append(s.said, fmt.Sprint(what, " at ", len(s.posted))) }

// post posts a burst. The last has a signal, mostly: without one nobody learns of
// it before the next, or Close.
func (s *story) post() error {
	a, b := s.rig.a, s.rig.b
	var wrs []rdma.SendWR
	for range 1 + s.IntN(6) {
		op := []rdma.Opcode{rdma.OpSend, rdma.OpRead, rdma.OpWrite, rdma.OpWriteImm}[s.IntN(4)]
		wrs = append(wrs, a.wr(b, s.next+uint32(len(wrs)), op, s.IntN(2) == 0))
	}
	if s.IntN(30) > 0 {
		wrs[len(wrs)-1].Signaled = true
	}
	ids := make([]uint32, len(wrs))
	for i := range wrs {
		ids[i] = uint32(wrs[i].ID)
	}
	room := a.conn.Room()
	err := a.conn.Post(wrs)
	switch {
	case err == nil:
		s.posted = append(s.posted, ids...)
		for i := range wrs {
			s.ops[ids[i]] = wrs[i].Op
		}
		s.next += uint32(len(wrs))
	case errors.Is(err, rdma.ErrDepth):
		if room >= len(wrs) {
			return fmt.Errorf("refused %d where there was room for %d", len(wrs), room)
		}
		time.Sleep(time.Duration(s.IntN(200)) * time.Microsecond)
	}
	return nil // or the Conn had failed: nothing is owed
}

// judge compares what completed with what was posted.
func (s *story) judge() error {
	a, b := s.rig.a.told, s.rig.b.told
	if len(a.sent) != len(s.posted) {
		return fmt.Errorf("%d completions of %d posted", len(a.sent), len(s.posted))
	}
	arrived, bad := 0, false
	for i, e := range a.sent {
		switch {
		case e.id != s.posted[i]:
			return fmt.Errorf("completion %d is of %d, want %d", i, e.id, s.posted[i])
		case e.err == nil && bad:
			return fmt.Errorf("%d succeeded after an earlier one had not", e.id)
		}
		var status *rdma.StatusError
		if e.err != nil && !errors.As(e.err, &status) {
			return fmt.Errorf("%d ended in %v, which has no status", e.id, e.err)
		}
		bad = bad || e.err != nil
		if op := s.ops[e.id]; e.err == nil && (op == rdma.OpSend || op == rdma.OpWriteImm) {
			arrived++
		}
	}
	return s.judgePeer(b, arrived)
}

// judgePeer: what is said to have arrived did, in order, and as what it was sent.
// (It may have got more than the sender knows.)
func (s *story) judgePeer(b *witness, arrived int) error {
	var want []uint32
	for _, id := range s.posted {
		if op := s.ops[id]; op == rdma.OpSend || op == rdma.OpWriteImm {
			want = append(want, id)
		}
	}
	got := 0
	for _, r := range b.received {
		if r.err != nil {
			continue
		}
		if got == len(want) {
			return errors.New("more arrived than was sent")
		}
		written := s.ops[want[got]] == rdma.OpWriteImm
		if r.written != written || r.n != chunk || written && r.imm != want[got] {
			return fmt.Errorf("message %d arrived as %+v", want[got], r)
		}
		got++
	}
	if got < arrived && !s.died() {
		return fmt.Errorf("%d messages arrived of %d that are said to have", got, arrived)
	}
	return nil
}

// died: the peer's device was killed, and with it what it had not handed out.
func (s *story) died() bool {
	for _, what := range s.said {
		if what[:3] == "the" {
			return true
		}
	}
	return false
}
