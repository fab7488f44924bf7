package rdmalink

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// reader is the user of a link that reads numbered frames.
type reader struct{ got []uint64 }

func (*reader) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (*reader) Closed(transport.Link, error)                         {}

func (r *reader) Receive(_ transport.Link, f transport.Frame) {
	var m wire.Answer
	if err := m.Decode(f.Body); err != nil {
		panic(err)
	}
	r.got = append(r.got, uint64(m.Request))
}

// intake is an inbound, with lanes that were never connected.
type intake struct {
	*inbound
	reader *reader
	lane   *lane
}

const intakeBuffers = 8

func newIntake() *intake {
	i := &intake{reader: &reader{}}
	n := New(Config{Buffers: intakeBuffers, BufferSize: 1 << 10, Landing: 8 << 10})
	l := newLink(n, transport.Defaults(transport.Options{}), i.reader, false)
	i.inbound = &l.rx
	i.renew()
	return i
}

func (i *intake) renew() {
	i.lane = &lane{l: i.l, memory: make([]byte, 2*intakeBuffers<<10), landing: make([]byte, 8<<10)}
}

// frameOf is the message: the frame of its number.
func frameOf(sequence uint64) []byte {
	return (&wire.Answer{Request: wire.RequestID(sequence)}).Append(nil)
}

// overLane brings a message in one of the lane's receives.
func (i *intake) overLane(sequence uint64, buffer uint32) error {
	data := i.lane.receive(buffer)[messageHeader:]
	data = data[:copy(data, frameOf(sequence))]
	return i.laned(sequence, arrival{data: data, lane: i.lane, buffer: buffer})
}

// reposted are the receives that the lane may post again; they are, now.
func (i *intake) reposted() []uint32 {
	var all []uint32
	for _, wr := range i.lane.repost {
		all = append(all, uint32(wr.ID))
		clear(i.lane.receive(uint32(wr.ID))) // the device may write into it
	}
	i.lane.repost = nil
	return all
}

// Invariant 1 and 2, one rule a line: t is a message over TCP, l over the lane.
func TestInboundRules(t *testing.T) {
	type step struct {
		way      byte
		sequence uint64
	}
	for _, c := range []struct {
		name   string
		steps  []step
		want   []uint64 // handed on
		free   int      // receives that can be posted again
		broken bool     // the last step is the peer's breach
	}{
		{"in order over TCP", []step{{'t', 1}, {'t', 2}}, []uint64{1, 2}, 0, false},
		{"in order over the lane", []step{{'l', 1}, {'l', 2}}, []uint64{1, 2}, 2, false},
		{"the lane is ahead of TCP", []step{{'t', 1}, {'l', 3}, {'l', 4}, {'t', 2}}, []uint64{1, 2, 3, 4}, 2, false},
		{"held until the gap closes", []step{{'l', 3}, {'l', 4}, {'t', 1}}, []uint64{1}, 0, false},
		{"credits alone", []step{{'l', 0}, {'t', 1}, {'l', 0}}, []uint64{1}, 2, false},
		{"TCP repeats what was consumed", []step{{'l', 1}, {'t', 1}, {'t', 2}}, []uint64{1, 2}, 1, false},
		{"TCP repeats what is held", []step{{'l', 2}, {'t', 2}, {'t', 1}}, []uint64{1, 2}, 1, false},
		{"the lane repeats what was consumed", []step{{'t', 1}, {'l', 1}, {'l', 2}}, []uint64{1, 2}, 2, false},
		{"the lane repeats what is held", []step{{'l', 2}, {'l', 2}}, nil, 0, true},
		{"TCP leaves a gap", []step{{'t', 1}, {'t', 3}}, []uint64{1}, 0, true},
		{"more is held than there are receives", []step{{'l', 2}, {'l', 3}, {'l', 4}, {'l', 5}, {'l', 6}, {'l', 7}, {'l', 8}, {'l', 9}, {'l', 10}}, nil, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := newIntake()
			for k, s := range c.steps {
				var err error
				if s.way == 't' {
					err = in.tunnelled(s.sequence, frameOf(s.sequence))
				} else {
					err = in.overLane(s.sequence, uint32(k)%intakeBuffers)
				}
				if last := k == len(c.steps)-1; (err != nil) != (c.broken && last) || err != nil && !errors.Is(err, transport.ErrProtocol) {
					t.Fatalf("step %d: %v", k, err)
				}
			}
			if !slices.Equal(in.reader.got, c.want) || len(in.lane.repost) != c.free {
				t.Errorf("got %d, want %d; %d receives are free, want %d", in.reader.got, c.want, len(in.lane.repost), c.free)
			}
		})
	}
}

// passage is a random life of a stream as an honest peer sends it: over TCP, then
// over a lane, whose first messages overtake the last over TCP; the lane is lost,
// and all that we do not own to have goes again over TCP; and so on.
type passage struct {
	*intake
	t        *rapid.T
	sent     uint64   // messages in all
	tcp      []uint64 // on their way, in order
	lane     []uint64
	free     []uint32 // receives that are posted
	carried  int      // messages that came over this lane
	released int      // receives that came back
}

// Every message is handed on once and in order, whatever overtakes what, and
// wherever a lane is lost; each receive comes back once, when its message is
// consumed.
func TestInboundOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &passage{intake: newIntake(), t: t}
		for range rapid.IntRange(1, 6).Draw(t, "lanes") {
			p.phase()
		}
		for len(p.tcp) > 0 {
			p.arriveTCP()
		}
		if p.next != p.sent+1 || len(p.held) != 0 {
			t.Fatalf("%d messages sent, %d is due, %d held", p.sent, p.next, len(p.held))
		}
		for k, n := range p.reader.got {
			if n != uint64(k+1) {
				t.Fatalf("handed on %d as number %d", n, k+1)
			}
		}
	})
}

func (p *passage) phase() {
	for len(p.tcp) > 0 { // the offer of this lane was behind them
		p.arriveTCP()
	}
	for range rapid.IntRange(0, 5).Draw(p.t, "over TCP") {
		p.sent++
		p.tcp = append(p.tcp, p.sent)
		if rapid.Bool().Draw(p.t, "at once") {
			p.arriveTCP()
		}
	}
	p.renew()
	p.free = p.free[:0]
	for b := range uint32(intakeBuffers) {
		p.free = append(p.free, b)
	}
	first := p.sent + 1
	for range rapid.IntRange(0, 40).Draw(p.t, "steps with a lane") {
		switch rapid.IntRange(0, 2).Draw(p.t, "step") {
		case 0:
			if len(p.lane) < len(p.free) { // as its credits say
				p.sent++
				p.lane = append(p.lane, p.sent)
			}
		case 1:
			p.arriveLane()
		case 2:
			p.arriveTCP()
		}
	}
	next := p.keep(p.intake.lane)
	p.intake.lane.memory = nil // whoever looks into it now, fails
	p.lane, p.carried, p.released = p.lane[:0], 0, 0
	for n := max(first, next); n <= p.sent; n++ {
		p.tcp = append(p.tcp, n)
	}
}

func (p *passage) arriveTCP() {
	if len(p.tcp) == 0 {
		return
	}
	n := p.tcp[0]
	p.tcp = p.tcp[1:]
	if err := p.tunnelled(n, frameOf(n)); err != nil {
		p.t.Fatalf("message %d over TCP: %v", n, err)
	}
	p.collect()
}

func (p *passage) arriveLane() {
	if len(p.lane) == 0 {
		return
	}
	n, b := p.lane[0], p.free[0]
	p.lane, p.free = p.lane[1:], p.free[1:]
	if err := p.overLane(n, b); err != nil {
		p.t.Fatalf("message %d over the lane: %v", n, err)
	}
	p.carried++
	p.collect()
}

// collect takes back what receives are free.
func (p *passage) collect() {
	for _, b := range p.reposted() {
		if slices.Contains(p.free, b) {
			p.t.Fatalf("receive %d comes back twice", b)
		}
		p.free = append(p.free, b)
		p.released++
	}
	held := 0
	for _, a := range p.held {
		if a.lane != nil {
			held++
		}
	}
	if p.released+held != p.carried {
		p.t.Fatalf("%d messages came over the lane, %d are held, %d receives came back", p.carried, held, p.released)
	}
}

// At the link's end nothing is handed on, and what comes late is no error.
func TestInboundAfterTheEnd(t *testing.T) {
	in := newIntake()
	err := errors.Join(in.tunnelled(1, frameOf(1)), in.overLane(3, 0))
	in.close()
	err = errors.Join(err, in.tunnelled(2, frameOf(2)), in.overLane(4, 1))
	if err != nil || fmt.Sprint(in.reader.got) != "[1]" {
		t.Errorf("%v, %d", err, in.reader.got)
	}
}

// slowReader takes its time over frames of the control plane.
type slowReader struct {
	reader
	entered, leave chan struct{}
}

func (r *slowReader) Receive(l transport.Link, f transport.Frame) {
	if f.Kind == wire.KindLeave {
		r.entered <- struct{}{}
		<-r.leave
		r.got = append(r.got, 0)
		return
	}
	r.reader.Receive(l, f)
}

// What the control plane says is handled apart from the polling thread, and what
// comes behind it over the lane waits there; over TCP, the TCP link's goroutine waits.
func TestTheControlPlaneIsConsumedApart(t *testing.T) {
	user := &slowReader{entered: make(chan struct{}), leave: make(chan struct{})}
	l := newLink(New(Config{}), transport.Defaults(transport.Options{}), user, false)
	in := &l.rx
	leave := (&wire.Leave{Epoch: 1}).Append(nil)
	// Cut so that the polling thread meets it in the middle of a message, too.
	first := append(frameOf(1), leave[:9]...)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(in.laned(1, arrival{data: first})) // returns, though the frame is not whole
	must(in.laned(2, arrival{data: append(leave[9:], frameOf(2)...)}))
	<-user.entered
	must(in.laned(3, arrival{data: frameOf(3)})) // does not wait
	must(in.laned(5, arrival{data: frameOf(5)}))
	overTCP := make(chan error)
	go func() { overTCP <- in.tunnelled(4, frameOf(4)) }()
	select {
	case err := <-overTCP:
		t.Fatalf("message 4 did not wait for 3: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	user.leave <- struct{}{}
	must(<-overTCP)
	in.close()
	if fmt.Sprint(user.got) != "[1 0 2 3 4 5]" {
		t.Errorf("%d", user.got)
	}
}

// A message may hold many frames, and a frame lie over many messages of both ways.
func TestInboundJoinsWhatWasCut(t *testing.T) {
	in := newIntake()
	b := append(append(frameOf(7), frameOf(8)...), frameOf(9)...)
	third := len(b) / 2
	err := in.laned(2, arrival{data: b[5:third]})
	err = errors.Join(err, in.tunnelled(1, b[:5]), in.laned(3, arrival{data: b[third:]}))
	if err != nil || fmt.Sprint(in.reader.got) != "[7 8 9]" {
		t.Errorf("%v, %d", err, in.reader.got)
	}
}
