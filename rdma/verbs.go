package rdma

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Verbs is the door to the RDMA devices of a host: cgo/verbs has those of
// libibverbs, rdma/fakeverbs has devices in software. Everything below it is what
// the library calls so; this package adds no meaning to it.
//
// Calls that post and poll take bursts: one crossing into C each.
type Verbs interface {
	// Devices names what is there; none is not an error. An *UnsupportedError says
	// why nobody can know (built without tag rdma, library missing, no kernel support).
	Devices() ([]string, error)
	// Open opens a device by its name.
	Open(name string) (Device, error)
}

// Device is an opened device with one protection domain. Close fails while
// something made of it is still open.
type Device interface {
	Name() string
	Attr() DeviceAttr
	Port(port int) (PortAttr, error)
	GID(port, index int) (GID, error)
	// Register pins mem, which must lie outside the Go heap, for DMA.
	Register(mem []byte, access Access) (Region, error)
	NewChannel() (Channel, error)
	// NewCQ makes a completion queue of at least depth entries whose events go to ch.
	NewCQ(depth int, ch Channel) (CQ, error)
	// NewQP makes a queue pair of type RC in state RESET, of which only signalled
	// sends complete with an entry when they succeed.
	NewQP(c QPConfig) (QP, error)
	// Async moves the asynchronous events that have come to dst; it does not wait.
	Async(dst []Event) (int, error)
	Close() error
}

// Region is registered memory.
type Region interface {
	LKey() uint32
	RKey() uint32
	// Close unpins the memory. A READ of it that is under way ends in error.
	Close() error
}

// Channel wakes who sleeps for completions.
type Channel interface {
	// Wait sleeps until a CQ that was armed gets an entry (true), timeout has
	// passed, or Wake. It takes the events it brings.
	Wait(timeout mono.Dur) (bool, error)
	// Wake ends the present Wait, or else the next. From any goroutine.
	Wake()
	Close() error
}

// CQ is a completion queue. One goroutine polls and arms.
type CQ interface {
	// Poll moves completions to dst. Where there are none it looks again, turns
	// times in all (at least once), without leaving C.
	Poll(dst []Completion, turns int) (int, error)
	// Arm asks for an event on the channel with the next entry. Poll once more
	// after it: what came in between brings no event.
	Arm() error
	Close() error
}

// QP is a queue pair of type RC. Post may be called by several goroutines at a
// time (of the same kind: one after the other).
type QP interface {
	Number() uint32
	// Init moves RESET to INIT: from then on receives can be posted.
	Init(port int, access Access) error
	// ReadyToReceive moves INIT to RTR, ReadyToSend RTR to RTS.
	ReadyToReceive(c Peering) error
	ReadyToSend(c Sending) error
	// Fail moves the QP to ERR: everything posted completes with StatusFlushed.
	Fail() error
	// PostSend and PostRecv post in order and return how many they could: fewer
	// than len(wrs) only with an error.
	PostSend(wrs []SendWR) (int, error)
	PostRecv(wrs []RecvWR) (int, error)
	// Close ends it: no DMA after. What was posted and has not completed never will.
	Close() error
}

// QPConfig says what a QP needs. Depths are in work requests.
type QPConfig struct {
	SendCQ, RecvCQ       CQ
	SendDepth, RecvDepth int
	SGEs                 int // per work request
}

// Peering is what RTR needs.
type Peering struct {
	QPN      uint32 // the peer's
	PSN      uint32 // the peer's first: 24 bits
	GID      GID    // the peer's; zero with LID != 0: no global route
	LID      uint16 // the peer's; 0 on Ethernet
	MTU      MTU
	Port     int   // ours
	GIDIndex int   // ours
	MaxReads uint8 // READs of the peer in flight that we serve
	MinRNR   uint8 // code of the pause that a sender makes when no receive is posted
	Class    uint8 // traffic class
}

// Sending is what RTS needs.
type Sending struct {
	PSN      uint32 // our first: 24 bits
	Timeout  uint8  // 4.096 us * 2^Timeout until a packet is sent again
	Retry    uint8  // so often, 0..7
	RNRRetry uint8  // so often where no receive is posted, 0..6; 7: for ever
	MaxReads uint8  // READs of ours in flight
}

// Access is what may be done to a Region, or through a QP.
type Access uint32

// The values are libibverbs' own.
const (
	LocalWrite  Access = 1 << 0
	RemoteWrite Access = 1 << 1
	RemoteRead  Access = 1 << 2
)

// SGE is a piece of local registered memory.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// Opcode of a send. The values are libibverbs' own.
type Opcode uint32

const (
	OpWrite    Opcode = 0
	OpWriteImm Opcode = 1
	OpSend     Opcode = 2
	OpRead     Opcode = 4
)

// SendWR is a work request of the send queue. Its layout is known to the C
// code of cgo/verbs: fixed size, no Go pointers.
type SendWR struct {
	ID       uint64
	Remote   uint64 // READ, WRITE: address at the peer
	SGEs     [2]SGE
	Op       Opcode
	RKey     uint32 // READ, WRITE: key of the peer's region
	Imm      uint32 // WRITE with immediate; in host order
	NumSGE   uint16 // of SGEs
	Signaled bool   // complete with an entry, also on success
	Fence    bool   // begin only after all earlier READs are done
}

// RecvWR is a posted receive.
type RecvWR struct {
	ID  uint64
	SGE SGE // Length 0: for WRITEs with immediate only
}

// Completion is an entry of a CQ. Of one in error only ID, Status, QP and
// Vendor are defined.
type Completion struct {
	ID     uint64
	Status Status
	Kind   CompletionKind
	Bytes  uint32 // received, or written by a WRITE with immediate
	Imm    uint32
	QP     uint32 // number of the local QP
	Vendor uint32 // the device's own code of an error
}

// CompletionKind says what completed. The values are libibverbs' own.
type CompletionKind uint32

const (
	DidSend    CompletionKind = 0
	DidWrite   CompletionKind = 1
	DidRead    CompletionKind = 2
	DidRecv    CompletionKind = 128
	DidRecvImm CompletionKind = 129 // a WRITE with immediate came
)

// Status of a completion. The values are libibverbs' own.
type Status uint32

const (
	StatusOK              Status = 0
	StatusLocalLength     Status = 1
	StatusLocalQP         Status = 2
	StatusLocalProtection Status = 4
	StatusFlushed         Status = 5 // the QP had failed already, or was closed
	StatusRemoteInvalid   Status = 9
	StatusRemoteAccess    Status = 10 // wrong key, address, or right
	StatusRemoteOperation Status = 11
	StatusRetryExceeded   Status = 12 // the peer or the way to it is gone
	StatusRNRExceeded     Status = 13 // the peer posts no receives
	StatusGeneral         Status = 21
)

// String is the name that libibverbs' own text uses, shortened.
func (s Status) String() string {
	switch s {
	case StatusOK:
		return "success"
	case StatusLocalLength:
		return "local length error"
	case StatusLocalQP:
		return "local QP operation error"
	case StatusLocalProtection:
		return "local protection error"
	case StatusFlushed:
		return "flushed"
	case StatusRemoteInvalid:
		return "remote invalid request"
	case StatusRemoteAccess:
		return "remote access error: wrong key, address or right"
	case StatusRemoteOperation:
		return "remote operation error"
	case StatusRetryExceeded:
		return "retries exceeded: the peer or the way to it is gone"
	case StatusRNRExceeded:
		return "RNR retries exceeded: the peer posts no receives"
	case StatusGeneral:
		return "general error"
	}
	return fmt.Sprintf("status %d", uint32(s))
}

// MTU of a path. The values are libibverbs' own: 256 << (m-1) bytes.
type MTU uint8

const (
	MTU256  MTU = 1
	MTU1024 MTU = 3
	MTU4096 MTU = 5
)

// Bytes is the MTU's size.
func (m MTU) Bytes() int { return 128 << m }

// GID is a port's address: IPv6, or IPv4 mapped into it, on RoCE v2.
type GID [16]byte

// DeviceAttr are a device's limits.
type DeviceAttr struct {
	QPs          int
	QPDepth      int // work requests per queue
	CQs          int
	CQDepth      int
	Regions      int
	RegionMax    uint64 // bytes
	SGEs         int
	ReadsServed  int // READs in flight that a QP serves (max_qp_rd_atom)
	ReadsStarted int // READs in flight that a QP starts (max_qp_init_rd_atom)
	Firmware     string
	Ports        int
}

// PortState: only PortActive carries traffic.
type PortState uint8

const (
	PortDown   PortState = 1
	PortInit   PortState = 2
	PortArmed  PortState = 3
	PortActive PortState = 4
)

// String names it.
func (s PortState) String() string {
	switch s {
	case PortDown:
		return "down"
	case PortInit:
		return "init"
	case PortArmed:
		return "armed"
	case PortActive:
		return "active"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// PortAttr is a port's present state.
type PortAttr struct {
	State      PortState
	MTU        MTU // active
	LID        uint16
	Ethernet   bool // RoCE or iWARP; else InfiniBand
	GIDs       int  // length of the table
	MessageMax uint32
}

// Event is an asynchronous event of a device.
type Event struct {
	Kind EventKind
	QP   uint32 // of EventQPFatal
	Port int    // of EventPortUp, EventPortDown
}

// EventKind is what happened, as far as anybody here acts on it.
type EventKind uint8

const (
	EventOther EventKind = iota
	EventQPFatal
	EventCQError // overrun: completions are lost
	EventPortUp
	EventPortDown
	EventDeviceFatal
)

// UnsupportedError says that something is not there and what it would take.
// errors.Is(err, errors.ErrUnsupported) holds.
type UnsupportedError struct {
	What string // "RDMA verbs"
	Need string // "build with -tags rdma"
}

// Error says both.
func (e *UnsupportedError) Error() string { return e.What + " not available: " + e.Need }

// Is makes it errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// String names it.
func (k EventKind) String() string {
	switch k {
	case EventQPFatal:
		return "queue pair failed"
	case EventCQError:
		return "completion queue overran"
	case EventPortUp:
		return "port up"
	case EventPortDown:
		return "port down"
	case EventDeviceFatal:
		return "device failed"
	}
	return "other"
}
