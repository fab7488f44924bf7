package wire

// Identifiers. The scheduler hands out all but RequestID; they hold for one
// Epoch and are dense from 0, so they index slices.
type (
	// ModelID names a model and version in the scheduler's catalogue.
	ModelID uint32
	// GPUID names a device inside its pool. Smallest first: high ids idle.
	GPUID uint32
	// FrontendID names one connected frontend.
	FrontendID uint32
	// RequestID is unique in its frontend's lifetime; it starts at a random
	// value, so that a restarted frontend does not repeat its forerunner's.
	RequestID uint64
	// BatchID is unique in its epoch.
	BatchID uint64
	// LoadID names an order to a device's loader, in its epoch; a report brings it back.
	LoadID uint64
	// Generation numbers the weights of a model on a GPU: each load there makes a new one. 0 is none.
	Generation uint32
	// Epoch numbers a scheduler's reign: later schedulers have higher ones
	// (its start in unix nanoseconds). A backend obeys the highest it has seen.
	Epoch uint64
)

// ModelNone is no model's id: an order names those by it that have none.
const ModelNone = ModelID(1<<32 - 1)

// Priority of a request: of those of its model that are due at the same instant the one with the smaller
// number goes first. 1 goes first of all and 255 last; 0 is the default, which goes as PriorityDefault.
type Priority uint8

// PriorityDefault is where requests that give none go.
const PriorityDefault Priority = 128

// Order is the priority as a number to compare: the smaller goes first.
func (p Priority) Order() uint8 {
	if p == 0 {
		p = PriorityDefault
	}
	return uint8(p)
}

// Class of a request.
type Class uint8

const (
	// ClassLatency: it is answered by its deadline or not at all.
	ClassLatency Class = iota
	// ClassBestEffort: it has no deadline, and gets what time the others leave.
	ClassBestEffort
	classEnd
)

// Suspicion grades how likely a request makes the batch fail that it runs in.
type Suspicion uint8

const (
	// SuspicionNone: nothing speaks against it.
	SuspicionNone Suspicion = iota
	// SuspicionSome: it runs apart from those above where there is time, and else with them.
	SuspicionSome
	// SuspicionStrong: it runs alone where there is time, and else it is refused (ReasonIsolated).
	SuspicionStrong
	suspicionEnd
)

// SlabHandle names a slab of a frontend's arena: its index in the low 32
// bits, its generation in the high 32. A freed slab's generation moves on, so
// a stale handle is detected, never served.
type SlabHandle uint64

// MakeSlabHandle joins index and generation.
func MakeSlabHandle(index, generation uint32) SlabHandle {
	return SlabHandle(uint64(generation)<<32 | uint64(index))
}

// Index is the slab's place in its arena.
func (h SlabHandle) Index() uint32 { return uint32(h) }

// Generation counts the slab's lives.
func (h SlabHandle) Generation() uint32 { return uint32(h >> 32) }

// SlabRef is where an input lies: enough for a one-sided READ. Address and
// RKey are 0 where the frontend has no RDMA.
type SlabRef struct {
	Handle  SlabHandle
	Address uint64
	RKey    uint32
	Length  uint32 // bytes of input in the slab
}

// Role is what a peer is.
type Role uint8

const (
	RoleFrontend Role = 1 + iota
	RoleScheduler
	RoleBackend
	RoleController
)

// Reason says why a request got no output. 0 means that it got one.
type Reason uint16

const (
	// ReasonNone: served.
	ReasonNone Reason = iota
	// ReasonDeadline: dropped, it could no longer make its deadline even alone.
	ReasonDeadline
	// ReasonShed: dropped under overload so that the others keep their batch.
	ReasonShed
	// ReasonFull: refused at the door, a bounded queue or ring was full.
	ReasonFull
	// ReasonUnavailable: no backend serves the model now, or the link is down.
	ReasonUnavailable
	// ReasonUnknownModel: no such model in the catalogue.
	ReasonUnknownModel
	// ReasonBackendLost: its backend died and too little time was left to retry.
	ReasonBackendLost
	// ReasonExecution: the model's run failed.
	ReasonExecution
	// ReasonInput: the input could not be read (stale slab, wrong length).
	ReasonInput
	// ReasonExpired: the frontend saw the deadline pass without an answer.
	ReasonExpired
	// ReasonCancelled: the caller gave up.
	ReasonCancelled
	// ReasonDraining: the process is shutting down.
	ReasonDraining
	// ReasonLate: its batch reached the backend after the last instant to start it.
	ReasonLate
	// ReasonCold: no GPU holds the model's weights, and none could have them in time.
	ReasonCold
	// ReasonMemory: the backend had no room for its weights or inputs.
	ReasonMemory
	// ReasonInfeasible: no variant of the model meets what is asked of latency, accuracy and cost.
	ReasonInfeasible
	// ReasonUnsent: its outputs could not be sent: more wait for their links than the backend keeps.
	ReasonUnsent
	// ReasonIsolated: requests like it make their batches fail, and no time was left to run it apart from the others.
	ReasonIsolated
	reasonEnd // a peer refuses what it does not know: raise Version with it (TestReasonsOfVersion)
)

// ReasonCount is the number of reasons; they are below it.
const ReasonCount = int(reasonEnd)

// String is the name used in metrics' labels and errors.
func (r Reason) String() string {
	names := [reasonEnd]string{"none", "deadline", "shed", "full", "unavailable", "unknown_model",
		"backend_lost", "execution", "input", "expired", "cancelled", "draining", "late", "cold", "memory", "infeasible", "unsent", "isolated"}
	if r < reasonEnd {
		return names[r]
	}
	return "unknown"
}
