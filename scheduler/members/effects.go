package members

import (
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Conn numbers a member's link: the server counts them up and uses none twice.
type Conn uint64

// Kind says what an Effect asks for.
type Kind uint8

const (
	// Refuse: tell Conn why (Err) and close its link. It is no member.
	Refuse Kind = 1 + iota
	// Replace: close Conn's link: the same process has another one. It is no member any more.
	Replace
	// Want: ask Conn for the model list of Digest.
	Want
	// AddPool: Pool begins, for devices of Type, as sub-cluster SubCluster; or goes over to
	// them, without models or GPUs. Paged: the memory of these devices.
	AddPool
	// RemovePool: Pool ends. It has neither models nor GPUs.
	RemovePool
	// AddModel: Pool serves Model from now on, as Spec.
	AddModel
	// SetModel: it is served as Spec from now on; what waits stays.
	SetModel
	// MoveModel: Pool serves Model from now on, as Spec, and From no longer; what waits moves, too.
	MoveModel
	// RemoveModel: Pool serves Model no longer; what waits is answered. Finish: all its GPUs have
	// the model, and will until the order that ended it is answered: what waits may be served.
	RemoveModel
	// AdmitBackend: tell Conn that it is admitted, then of all frontends, then of its models' ids (Bound).
	AdmitBackend
	// Bind: tell Conn of models' ids (Bound), before the first batch of these.
	Bind
	// Keep: tell Conn what a device shall have (Order).
	Keep
	// AddGPU: GPU of Pool is device Device of the Index-th pool of Conn, free in Free.
	AddGPU
	// RetireGPU: nothing new for it. When it has nothing left, the core wants to know (Idle).
	RetireGPU
	// RemoveGPU: it is gone; what ran there is queued again.
	RemoveGPU
	// AdmitFrontend: tell all backends of Frontend, then Conn that it is admitted.
	AdmitFrontend
	// RemoveFrontend: tell all backends that Frontend has left.
	RemoveFrontend
	// Answer: tell Conn what came of its order ID: Err, or that it is done.
	Answer
	// Note: a line for the log.
	Note
)

// Effect is one thing to carry out. Which fields count is said with its Kind.
type Effect struct {
	Kind       Kind
	Conn       Conn
	Err        error
	Digest     catalog.Digest
	Pool, From int
	Type       string
	SubCluster string
	Paged      *catalog.Paged // immutable; nil: their models are resident
	Model      wire.ModelID
	Spec       *catalog.ModelSpec // immutable
	GPU        wire.GPUID
	Name       string // AddGPU: "backend/device"
	Index      int
	Device     int
	Free       mono.Dur
	Finish     bool
	Frontend   wire.FrontendID
	Bound      *catalog.Bound
	Order      *catalog.Keep
	ID         uint64
	Text       string
}

// Effects are to be carried out in their order.
type Effects []Effect

func (e *Effects) add(f Effect) { *e = append(*e, f) }

func (e *Effects) refuse(c Conn, err error) { e.add(Effect{Kind: Refuse, Conn: c, Err: err}) }

func (e *Effects) note(text string) { e.add(Effect{Kind: Note, Text: text}) }
