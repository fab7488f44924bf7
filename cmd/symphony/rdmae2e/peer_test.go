package rdmae2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A peer is a process that serves objects from an arena, as a frontend does, and
// takes orders on its standard input: a line of JSON each, and one in reply. It can
// READ another's objects, too, as a backend does.

// setting is what a peer begins with.
type setting struct {
	Silence mono.Dur
	Arena   int64
}

// order is what to do; reply is what came of it.
type order struct {
	Do          string
	Count, Size int      // of stock
	Address     string   // of hammer: whose
	Objects     []object // likewise: what
}

type reply struct {
	Address  string   // at first
	Objects  []object // of stock
	Received uint64   // frames, in order
	Reads    uint64   // that hammer has made
	Error    string
}

// object is an input that a peer offers.
type object struct {
	Request wire.RequestID
	Input   wire.SlabRef
}

// fill writes bytes that tell whose they are and where they belong.
func fill(b []byte, r wire.RequestID) {
	for i := range b {
		b[i] = byte(r) ^ byte(i) ^ byte(i>>8)
	}
}

func filled(b []byte, r wire.RequestID) bool {
	for i := range b {
		if b[i] != byte(r)^byte(i)^byte(i>>8) {
			return false
		}
	}
	return true
}

// peer is the process from inside.
type peer struct {
	verbs    *forgetful
	net      *rdmalink.Network
	arena    *arena.Arena
	listener transport.Listener
	handles  []wire.SlabHandle
	last     wire.RequestID
	gate     sync.RWMutex // held for writing: frames are not taken
	received atomic.Uint64
	broken   atomic.Bool // a frame was not the next
	reads    atomic.Uint64
}

// servePeer is the peer's main: until its standard input ends.
func servePeer(text string) error {
	var s setting
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	p := &peer{verbs: &forgetful{Verbs: verbs.New()}}
	nic, err := openDevice(p.verbs)
	if err != nil {
		return err
	}
	n := rdmalink.New(rdmalink.Config{TCP: tcp.New(), NIC: nic})
	p.net = n
	if p.arena, err = arena.New(s.Arena, n); err != nil {
		return err
	}
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend, Incarnation: 1, Name: "peer"}, Slabs: p.arena, Silence: s.Silence}
	if p.listener, err = n.Listen("tcp:127.0.0.1:0", o, func(wire.Hello) (transport.Handler, error) { return p, nil }); err != nil {
		return err
	}
	if err := p.obey(); err != nil {
		return err
	}
	for _, h := range p.handles {
		p.arena.Free(h)
	}
	return errors.Join(p.listener.Close(), p.arena.Close(), n.Close(), nic.Close())
}

// obey answers orders until there are no more.
func (p *peer) obey() error {
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	if err := out.Encode(reply{Address: p.listener.Address()}); err != nil {
		return err
	}
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		var r reply
		if err := p.do(o, &r); err != nil {
			r.Error = err.Error()
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

func (p *peer) do(o order, r *reply) error {
	switch o.Do {
	case "stock":
		return p.stock(o, r)
	case "block":
		p.gate.Lock()
	case "unblock":
		p.gate.Unlock()
	case "received":
		r.Received = p.received.Load()
		if p.broken.Load() {
			return errors.New("a frame was lost, or came twice")
		}
	case "hammer":
		return p.hammer(o)
	case "reads":
		r.Reads = p.reads.Load()
	case "forget":
		return p.verbs.forget()
	default:
		return fmt.Errorf("what is %q?", o.Do)
	}
	return nil
}

// stock gives all slabs to new requests; what was there is freed.
func (p *peer) stock(o order, r *reply) error {
	for _, h := range p.handles {
		p.arena.Free(h)
	}
	p.handles = p.handles[:0]
	for range o.Count {
		h, b, err := p.arena.Alloc(o.Size)
		if err != nil {
			return err
		}
		p.last++
		fill(b, p.last)
		p.arena.SetRequest(h, p.last)
		p.handles = append(p.handles, h)
		r.Objects = append(r.Objects, object{p.last, transport.SlabRef(h, b, transport.SlabKey(p.listener))})
	}
	return nil
}

// hammer READs another peer's objects from now on, some at a time.
func (p *peer) hammer(o order) error {
	l, err := p.net.Dial(context.Background(), o.Address, transport.Options{Hello: wire.Hello{Role: wire.RoleBackend, Incarnation: 1, Name: "hammer"}}, p)
	if err != nil {
		return err
	}
	for _, x := range o.Objects {
		op := transport.ReadOp{Request: x.Request, Input: x.Input, Dst: p.net.Buffers().Alloc(int(x.Input.Length))}
		again := make(chan error, 1)
		op.Done = func(_ uint64, err error) { again <- err }
		go func() {
			for err := error(nil); err == nil; err = <-again {
				p.reads.Add(1)
				_ = l.Read([]transport.ReadOp{op}) // Done is called
			}
		}()
	}
	return nil
}

// Receive implements transport.Handler: numbered frames.
func (p *peer) Receive(_ transport.Link, f transport.Frame) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	var m wire.Answer
	if f.Kind != wire.KindAnswer || m.Decode(f.Body) != nil || uint64(m.Request) != p.received.Load() {
		p.broken.Store(true)
	}
	p.received.Add(1)
}

// Buffer implements transport.Handler.
func (*peer) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Closed implements transport.Handler.
func (*peer) Closed(transport.Link, error) {}

// forgetful can take back the largest registration, which is the arena's, behind
// everybody's back: what was offered with its key is then a wrong key.
type forgetful struct {
	rdma.Verbs
	mu      sync.Mutex
	largest *lost
	size    int
}

type lost struct {
	rdma.Region
	once sync.Once
	err  error
}

// Close implements rdma.Region; the second one says what the first did.
func (l *lost) Close() error {
	l.once.Do(func() { l.err = l.Region.Close() })
	return l.err
}

type forgetfulDevice struct {
	rdma.Device
	of *forgetful
}

// Open implements rdma.Verbs.
func (f *forgetful) Open(name string) (rdma.Device, error) {
	d, err := f.Verbs.Open(name)
	if err != nil {
		return nil, err
	}
	return forgetfulDevice{d, f}, nil
}

// Register implements rdma.Device.
func (d forgetfulDevice) Register(mem []byte, access rdma.Access) (rdma.Region, error) {
	r, err := d.Device.Register(mem, access)
	if err != nil {
		return nil, err
	}
	l := &lost{Region: r}
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	if len(mem) > d.of.size {
		d.of.largest, d.of.size = l, len(mem)
	}
	return l, nil
}

func (f *forgetful) forget() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.largest.Close()
}

// peerProcess is the process from outside.
type peerProcess struct {
	*process
	to      *json.Encoder
	in      io.Closer
	from    *json.Decoder
	address string
}

// startPeer starts one that is told to go at the test's end, if it has not before.
func startPeer(t *testing.T, s setting) *peerProcess {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"="+string(text))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, write, err := os.Pipe() // not StdoutPipe: its Wait would take away what was not read yet
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	p := &peerProcess{process: launch(t, "peer", cmd), to: json.NewEncoder(in), in: in, from: json.NewDecoder(out)}
	write.Close()
	t.Cleanup(func() { out.Close() })
	p.address = p.reply().Address
	return p
}

func (p *peerProcess) reply() reply {
	p.t.Helper()
	var r reply
	if err := p.from.Decode(&r); err != nil {
		p.t.Fatalf("peer: %v\n%s", err, p.log.String())
	}
	if r.Error != "" {
		p.t.Fatalf("peer: %s", r.Error)
	}
	return r
}

// tell gives an order and waits for the reply.
func (p *peerProcess) tell(o order) reply {
	p.t.Helper()
	if err := p.to.Encode(o); err != nil {
		p.t.Fatalf("peer: %v\n%s", err, p.log.String())
	}
	return p.reply()
}

// leave ends it in good order.
func (p *peerProcess) leave() {
	p.t.Helper()
	p.in.Close()
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("the peer ended with status %d\n%s", code, p.log.String())
	}
}
