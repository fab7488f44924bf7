// Package transport is the contract between the parts of the system and the
// networks that join them: ordered links that carry frames (package wire),
// pull input bytes, and know how far the peer's clock lies away.
//
// The package also holds what every transport needs and none should write
// twice: Outbox (bounded send queue), Heart (delay, clock offset, silence),
// Mux (scheme to Network) and Keeper (one link held up for ever).
//
// Implementations: transport/loopback (in process), transport/tcp and
// transport/rdmalink. All pass transport/transporttest. Ownership: a Link's methods
// may be called from any goroutine; a Handler's methods are called by one goroutine
// at a time, in the order in which the peer sent, and must not block: it may be the
// one that serves all links of a device.
package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Errors of a link. Match with errors.Is.
var (
	ErrClosed      = errors.New("link closed")
	ErrFull        = errors.New("link's send buffer is full")
	ErrVersion     = errors.New("peer speaks another protocol version")
	ErrRejected    = errors.New("peer rejected the link")
	ErrUnreachable = errors.New("peer is unreachable")
	ErrProtocol    = errors.New("peer broke the protocol")
	ErrSilent      = errors.New("peer fell silent: heartbeats missed")
	ErrStale       = errors.New("slab was freed or given to another request")
)

// Rejected is the error of a link that the peer rejected with these words. They may be an
// ErrRejected's own, of the peer's log: it is said once.
func Rejected(words string) error {
	return fmt.Errorf("%w: %s", ErrRejected, strings.TrimPrefix(words, ErrRejected.Error()+": "))
}

// Frame is one received frame. Body and Payload hold until Receive returns.
type Frame struct {
	Kind    wire.Kind
	Body    []byte
	Payload []byte
}

// Handler takes what a link brings.
type Handler interface {
	// Receive gets every frame of the kinds above link level.
	Receive(l Link, f Frame)
	// Buffer is asked where the n payload bytes of a frame shall lie, before
	// they are read from the socket. nil (or one shorter than n): the link uses
	// a buffer of its own that holds until Receive returns.
	Buffer(l Link, kind wire.Kind, body []byte, n int) []byte
	// Closed is the last call: the link is gone, err says why (never nil).
	Closed(l Link, err error)
}

// SlabSource serves READs of this process's slabs. Pin fails with ErrStale
// when the handle's generation, its request or the length do not fit; the bytes
// stay valid until Unpin, also when the slab is freed meanwhile.
type SlabSource interface {
	Pin(ref wire.SlabRef, request wire.RequestID) ([]byte, error)
	Unpin(ref wire.SlabRef)
}

// ReadOp pulls one input into Dst (len(Dst) == Input.Length).
type ReadOp struct {
	Request wire.RequestID
	Input   wire.SlabRef
	Dst     []byte
	// Done is called exactly once, also when Read returns an error: from a goroutine
	// of the link's or, when the op could not be sent (ErrFull, ErrClosed), from the
	// caller's. nil, ErrStale, ErrClosed, ...; after it,
	// nobody writes to Dst. It must not block. Token is handed back, so that one func serves all ops.
	Done  func(token uint64, err error)
	Token uint64
}

// Link is a live connection.
type Link interface {
	// Peer is what the other side said of itself.
	Peer() wire.Hello
	// Send queues whole frames without payload (one or many, appended to one
	// another); it copies them and never blocks. All or nothing: ErrFull or
	// ErrClosed. Frames of one goroutine arrive in order.
	Send(frames []byte) error
	// SendPayload queues one frame whose payload bytes follow; they are not
	// copied (beyond the socket's own) and must not change until release is
	// called (exactly once, also on error, then before SendPayload returns;
	// nil: nobody to tell). A payload larger than the whole send buffer is
	// taken when nothing else is queued. release must not block.
	SendPayload(frame []byte, payload []byte, release func()) error
	// Read pulls inputs from the peer, all in parallel: all or nothing is sent,
	// and every op's Done is called in either case. The error says why nothing
	// was sent.
	Read(ops []ReadOp) error
	// Shift is the span to add to the peer's instants to get ours.
	Shift() mono.Dur
	// Stats is what the heartbeats measured.
	Stats() LinkStats
	// Close flushes what was queued (within a second) and closes; Handler.Closed
	// then gets cause, or ErrClosed when cause is nil. A peer that broke the protocol
	// (ErrProtocol) is told how, where the transport can. It returns at once, so
	// that a Handler may call it: Closed tells the end. What the peer sends from
	// then on is discarded. Idempotent.
	Close(cause error)
}

// Gatherer is a Link that can be told to wait for more: the outputs of a batch share
// a system call. After PayloadLater call Flush soon; what others send meanwhile may
// take it along.
type Gatherer interface {
	// PayloadLater is SendPayload of what may stay until Flush.
	PayloadLater(frame []byte, payload []byte, release func()) error
	// Flush sends it, and reports whether it left at once on a link that has little to
	// do: on the same host, its receiver's thread has often been put behind this one
	// then, and goes first if the caller lets it (ring.Yield).
	Flush() (calm bool)
}

// LinkStats are a link's measurements over its window (the last 10 s or so).
type LinkStats struct {
	RTT        mono.Dur // median round trip
	DelayBound mono.Dur // high percentile of the one-way delay: feeds d_ctrl
	Offset     mono.Dur // peer's clock minus ours (== -Shift)
	Samples    int      // round trips in the window; 0: nothing is known yet
	FramesIn   uint64
	FramesOut  uint64
	BytesIn    uint64
	BytesOut   uint64
	SendsFull  uint64 // Sends refused with ErrFull

	// Reads are the completion times of our READs, from Read until Done, by size.
	Reads [ReadSizes]ReadTimes

	// What the kernel measured of a TCP connection that transport/netprobe
	// watches; all 0 without. DelayBound is at least KernelBound.
	KernelSamples  int      // acknowledgements in the window that tell of the network alone
	KernelRTT      mono.Dur // their median round trip
	KernelBound    mono.Dur // their 99th percentile less half of the least: one way
	KernelSmoothed mono.Dur // 99th percentile of the kernel's smoothed round trip; holds the peer's waiting too, so it bounds nothing
}

// ReadSizes are the classes of inputs' sizes: up to 1 KiB, 4 KiB, ... 16 MiB, like
// an arena's slabs.
const ReadSizes = 8

// ReadTimes are the last READs of one class of sizes, 256 at most.
type ReadTimes struct {
	Samples  int
	P50, P99 mono.Dur
}

// Network makes links. Addresses are "tcp:host:port" or "inproc:name".
type Network interface {
	// Dial makes one attempt; ctx bounds it. Errors wrap ErrUnreachable,
	// ErrVersion, ErrRejected or ErrProtocol and say what to do; h was then not
	// called. The link's Shift is measured before Dial returns.
	Dial(ctx context.Context, address string, o Options, h Handler) (Link, error)
	// Listen accepts links; accept decides for each peer, from its hello, which
	// handler serves it, or refuses it with an error that the peer is told. It
	// may be called from several goroutines. Every handler that it returned gets
	// its Closed, also when the link dies before its first frame.
	Listen(address string, o Options, accept func(peer wire.Hello) (Handler, error)) (Listener, error)
}

// Listener is an open address.
type Listener interface {
	// Address is where peers can dial ("tcp:127.0.0.1:41235").
	Address() string
	// Close stops accepting, closes the accepted links and waits until their
	// handlers were told (a second or so). Not from a Handler's method.
	Close() error
}
