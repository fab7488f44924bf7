package wire

import "github.com/symphony-serving/symphony/transport/mono"

// Version of the frame layout and of every message in it.
const Version = 4

// Limits of a frame.
const (
	HeaderSize = 16
	BodyMax    = 64 << 10
	PayloadMax = 256 << 20
	BatchMax   = 1024    // requests in one Batch message
	OutputMax  = 1 << 30 // bytes of one request's outputs, in as many parts as it takes
)

// Kind tells what a frame's body is.
type Kind uint8

const (
	// Link level: handled inside a transport, never seen by a Handler.
	KindHello Kind = 1 + iota
	KindWelcome
	KindReject
	KindPing
	KindPong
	// A lane is a queue pair beside the TCP connection (package rdmalink).
	KindLaneOffer  // dialler -> listener
	KindLaneAccept // listener -> dialler, the same fields about the other side
	KindLaneUp     // dialler -> listener: the probe succeeded
	KindLaneDown   // either: the lane is gone, or refused
	KindLaneData   // either, payload: a message of the stream that takes no lane
)

const (
	// Control plane.
	KindDoc      Kind = 16 + iota // a JSON document as payload (package catalog)
	KindMember                    // scheduler -> backend
	KindLeave                     // either end drains: nothing new, finish what runs
	KindLead                      // scheduler -> frontend: whether it leads its group
	KindPromise                   // scheduler -> backend: obey me from now on
	KindRunning                   // backend -> scheduler: a batch of the reign before
	KindPromised                  // backend -> scheduler: whom it obeys
	KindBeat                      // scheduler <-> scheduler of one group
)

const (
	// Data plane, the order of a request's life.
	KindSubmit    Kind = 32 + iota // frontend -> scheduler
	KindAnswer                     // scheduler -> frontend: dropped, and why
	KindBatch                      // scheduler -> backend
	KindRead                       // backend -> frontend (transport internal)
	KindReadReply                  // frontend -> backend, payload (transport internal)
	KindOutput                     // backend -> frontend, payload
	KindDone                       // backend -> scheduler
	KindCancel                     // frontend -> scheduler: nobody waits for it any more (FeatureCancel)
	KindLoad                       // scheduler -> backend: a model's weights come to a device, or go
	KindLoaded                     // backend -> scheduler: what came of a Load
)

// Hello opens a link, from the side that dialled; Welcome is its reply with
// the same fields about the other side.
type Hello struct {
	Role        Role
	Incarnation uint64   // differs between two lives of one process
	Token       [32]byte // SHA-256 of the cluster token; zero where none is set
	Name        string   // at most 64 bytes; for logs
	Features    Features // what the side can do beyond this version's core
}

// Features is a set of abilities. A link uses what both sides have.
type Features uint32

// FeatureLane: frames may travel as messages of a stream, over a lane where there is one.
const FeatureLane Features = 1

// FeatureCancel: a scheduler understands Cancel.
const FeatureCancel Features = 2

// Reject is the reply to a Hello that is not welcome; the link closes after.
type Reject struct {
	Version uint8  // the version that the rejecting side speaks
	Text    string // what is wrong and what to do; at most 200 bytes
}

// Ping and Pong measure delay and clock offset; instants are raw, each of
// the clock of the side that read it, and are not shifted.
type Ping struct {
	Sequence uint64
	Sent     mono.Time
}

// Pong answers a Ping.
type Pong struct {
	Sequence uint64
	Sent     mono.Time // the ping's
	Received mono.Time // on the answering side's clock
	Replied  mono.Time // on the answering side's clock
}

// LaneOffer is what one side tells the other of its end of a lane.
type LaneOffer struct {
	Generation uint32 // numbers the lanes of a link
	QPN        uint32
	PSN        uint32 // 24 bits
	GID        [16]byte
	LID        uint16
	MTU        uint8 // 1..5: 256 << (MTU-1) bytes
	MaxReads   uint8 // READs that this side serves at a time, at least 1
	Buffers    uint16
	BufferSize uint32 // of each posted receive: LaneBufferMin..LaneBufferMax
	Landing    RemoteMemory
	Slabs      RemoteMemory // where inputs lie; Size 0: none can be READ
	Headers    uint32       // count of slab headers, from the start of Slabs on
	Nonce      uint64       // plus its offset, it is each of the first words of Landing: what the probe READ must bring
}

// Bounds of a lane's receives.
const (
	LaneBuffersMin = 4
	LaneBufferMin  = 1 << 10
	LaneBufferMax  = 1 << 20
)

// RemoteMemory is memory that the peer may reach one-sided.
type RemoteMemory struct {
	Address uint64
	Size    uint64
	RKey    uint32
}

// LaneUp says that the dialler sends over the lane from now on.
type LaneUp struct {
	Generation uint32
}

// LaneDown says that a lane is gone at its sender's end, and which message of the
// stream it has not got yet: the peer sends that and all later ones again.
type LaneDown struct {
	Generation uint32
	Next       uint64
	Text       string // why, for people; at most 200 bytes
}

// LaneData is a message of the stream, its bytes the payload. The first is 1.
type LaneData struct {
	Sequence uint64
}

// Doc announces a JSON document in the payload.
type Doc struct {
	Type DocType
}

// DocType says which struct of package catalog the JSON is.
type DocType uint16

const (
	DocFrontend DocType = 1 + iota // catalog.FrontendInfo, frontend -> scheduler
	DocBackend                     // catalog.BackendInfo, backend -> scheduler
	DocAdmitted                    // catalog.Admitted, scheduler -> frontend or backend
	DocChanges                     // catalog.Changes, scheduler -> frontend
	DocWant                        // catalog.Want, scheduler -> backend, frontend -> scheduler
	DocModels                      // catalog.ModelList, backend -> scheduler
	DocLabels                      // labels, backend -> scheduler -> frontend
	DocBound                       // catalog.Bound, scheduler -> backend
	DocService                     // catalog.Service, backend -> scheduler
	DocKeep                        // catalog.Keep, scheduler -> backend; and what another one ordered, backend -> scheduler
	DocStock                       // catalog.Stock, backend -> scheduler
	DocOrder                       // catalog.Order, control plane -> scheduler
	DocOutcome                     // catalog.Outcome, scheduler -> control plane
	DocFacts                       // catalog.Facts, scheduler -> control plane
	DocStanding                    // catalog.Standing, scheduler -> scheduler
	DocHeld                        // catalog.Held, backend -> scheduler
)

// Member tells a backend that a frontend came or went.
type Member struct {
	Epoch    Epoch
	Frontend FrontendID
	Up       bool
	Instance uint64 // of its process: the same after a scheduler's restart, and what answers at Address must be it
	Address  string // where its slabs are read: "tcp:host:port" or "inproc:name"; at most 128 bytes
}

// Leave says that its sender drains.
type Leave struct {
	Epoch Epoch
}

// Lead says whether a scheduler leads its group.
type Lead struct {
	Epoch Epoch // its reign, or, of a spare, the highest that it has heard of
	Leads bool
}

// Promise asks a backend to obey no reign below Epoch any more.
type Promise struct {
	Epoch Epoch
	Keep  bool // planned: batches that wait at the backend are run, too
}

// Running tells a scheduler that takes over of a batch that its backend goes on with: its outputs
// go to the frontends, its Done (with this Epoch and Batch) to the new scheduler.
type Running struct {
	Epoch  Epoch // that ordered it
	Batch  BatchID
	Pool   uint32    // index in the backend's list of pools
	Device uint32    // index in the pool's devices
	Until  mono.Time // planned end
	Items  []RunningItem
}

// RunningItem is one request of it.
type RunningItem struct {
	Instance uint64 // of the frontend's process
	Request  RequestID
}

// Promised says whom a backend obeys: the answer to Promise, after a Running for each batch that
// it goes on with; the news for a scheduler that it obeys no more; and, with Epoch 0, for those
// that it does not obey, on each new link and when it changes. Highest above Epoch: no.
type Promised struct {
	Epoch   Epoch // as asked, or as it was obeyed
	Highest Epoch // that was promised
	Lost    bool  // no link leads to the scheduler that it was promised to
}

// Beat is a heartbeat between the schedulers of a group.
type Beat struct {
	Epoch    Epoch // its reign, or, of a spare, the highest that it has heard of
	Leads    bool
	Number   uint16   // of the sender in its group
	Yields   bool     // the leader asks the addressee to take over
	Every    mono.Dur // until the next one, if nothing changes before
	Backends uint16   // that have promised it this reign, or, of a spare, that are linked with it
}

// Submit hands a request to the scheduler: its record, never its tensor.
type Submit struct {
	Request  RequestID
	Model    ModelID
	Arrival  mono.Time // at the frontend
	Deadline mono.Time // when the answer must be at the frontend
	Input    SlabRef
	Priority Priority // 0: PriorityDefault
	Class    Class
	// Application tells apart who sends requests of different lengths: a name, numbered when its frontend was
	// admitted; 0: none.
	Application uint16
	// App, Accuracy and Cost are of a request that leaves the choice of a model variant to the scheduler.
	App      uint32 // numbered likewise; 0: Model says what is to run
	Accuracy uint16 // at least, in AccuracyOne's parts of 1
	Cost     uint32 // at most, in nano-dollars; 0: whatever it costs
	// Suspicion is how likely the request makes its batch fail, by what its frontend has seen of its source and input.
	Suspicion Suspicion
}

// AccuracyOne is an accuracy of 1: no Submit asks for more.
const AccuracyOne = 10_000

// Cancel tells a scheduler that nobody waits for a request any more: if it waits for a batch it leaves
// the queue, and if not nothing happens. There is no answer. Model and Deadline are the Submit's: they
// say where it is. It goes over the Submit's link, after it, to a scheduler with FeatureCancel.
type Cancel struct {
	Request  RequestID
	Model    ModelID
	Deadline mono.Time
}

// Answer tells a frontend that a request will get no output, and why.
type Answer struct {
	Request RequestID
	Reason  Reason
}

// BatchItem is one request of a batch.
type BatchItem struct {
	Request  RequestID
	Frontend FrontendID
	Deadline mono.Time
	Input    SlabRef
	// Suspicion is the Submit's: suspects run apart from the others of their batch.
	Suspicion Suspicion
}

// Batch orders a backend to run Items on one of its devices: READ the
// inputs, start at Exec or as soon after as inputs and device allow, send
// each output to its frontend, and Done to the scheduler.
type Batch struct {
	Epoch  Epoch
	Batch  BatchID
	Model  ModelID
	GPU    GPUID     // the scheduler's id, echoed in Output
	Device uint32    // index in the backend's own list of the pool's devices
	Pool   uint32    // index in the backend's own list of pools
	Exec   mono.Time // planned start
	Until  mono.Time // planned end, Exec + l(b)
	Latest mono.Time // last start: past it the batch is refused whole, with ReasonLate; Never: it is not
	// Generation is of the weights that it counts on, on that device: without them it is refused whole, with
	// ReasonCold. 0: of a model whose weights are there for good.
	Generation Generation
	Items      []BatchItem
}

// Done reports a batch: the device is free from End on. Every batch gets
// exactly one Done, also one that could not run. Items that are neither in Ran
// nor in Failed got no answer: a batch that was refused whole (ReasonLate, ReasonCold)
// has all of them for the scheduler to queue again.
type Done struct {
	Epoch  Epoch
	Batch  BatchID
	Ready  mono.Time // all inputs were there
	Start  mono.Time // execution began
	End    mono.Time // execution ended
	Fetch  mono.Dur  // from the order's arrival to Ready
	Ran    uint16    // items executed
	Failed uint16    // items answered with a reason instead
	Reason Reason    // of the whole batch, when it did not run
	Flags  OutputFlags
}

// Read pulls a slab's bytes. A stale generation, another request's slab or a
// length beyond the slab is answered with ReasonInput and no payload.
type Read struct {
	Sequence uint64
	Request  RequestID
	Input    SlabRef
}

// ReadReply brings the bytes (payload) or a reason.
type ReadReply struct {
	Sequence uint64
	Reason   Reason
}

// Output brings one request's outputs (payload, laid out as
// catalog.ModelSpec.Outputs says) or a reason, straight from the backend. Large outputs come in
// parts, in their order, those of other requests between them; a reason ends what has come so far.
type Output struct {
	Request   RequestID
	Reason    Reason
	BatchSize uint16
	Device    GPUID     // the scheduler's id of the device, for people
	Fetch     mono.Dur  // order's arrival at the backend until all inputs were there
	Execute   mono.Dur  // execution of the batch
	Start     mono.Time // execution began
	// Which batch it ran in, and when all inputs of that were there. Epoch 0: its sender does not tell.
	Epoch Epoch
	Batch BatchID
	Ready mono.Time
	Flags OutputFlags
	Model ModelID // which ran: of a request with an App its variant
	// Offset is where the payload lies in the request's outputs, Total how many bytes these have. Total 0: the
	// payload is all of them.
	Offset uint32
	Total  uint32
}

// OutputFlags say more of an output, and of the batch that it is of.
type OutputFlags uint8

// OutputCold: its batch was the first one with these weights: the request waited for them.
const OutputCold OutputFlags = 1

// OutputAlone: with ReasonExecution: the model failed on this request alone, so its input is the cause. The payload is
// the model's error, in at most ErrorTextMax bytes.
const OutputAlone OutputFlags = 2

// OutputParts: of a Done: the batch ran in several parts, because some of it failed. Its times say nothing of how long
// batches take.
const OutputParts OutputFlags = 4

// ErrorTextMax bounds the text of a model's error that goes to a client.
const ErrorTextMax = 400

// A model's files are exchanged while it serves: OutputBefore is of files that others are about to take the place of, or have
// just done so, OutputAfter of those others for a while. Outputs of both in one answer are of two models.
const (
	OutputBefore OutputFlags = 8 << iota
	OutputAfter
)

// Load orders a device of a backend to copy a model's weights into pages that are free, or to forget them
// (Op). Loads of a device are done one after the other, in order of Earliest, each as soon as the device gets to it;
// an unload at once, and it cannot fail. One of ModelNone is of weights whose model the scheduler has no id for: of that generation,
// or with 0 of any. Each gets exactly one Loaded, but for those that are
// under way when another scheduler is obeyed, when their link ends, or when their device goes out of service: those are void.
type Load struct {
	Epoch      Epoch
	Load       LoadID
	Model      ModelID
	GPU        GPUID  // the scheduler's id
	Device     uint32 // index in the backend's own list of the pool's devices
	Pool       uint32 // index in the backend's own list of pools
	Op         LoadOp
	Generation Generation // of the weights that come, or that go; not 0, but where Model is ModelNone
	Earliest   mono.Time
	Latest     mono.Time // not begun by then, it is refused: ReasonLate
	Until      mono.Time // planned end
}

// LoadOp is what a Load orders.
type LoadOp uint8

const (
	OpLoad LoadOp = 1 + iota
	OpUnload
)

// Loaded reports a Load. Reasons: ReasonNone, done; ReasonLate, not begun in time; ReasonMemory, too few
// pages are free; ReasonUnknownModel; ReasonExecution, the device failed at it; ReasonCold, it was unloaded meanwhile;
// ReasonFull, too many wait already.
type Loaded struct {
	Epoch      Epoch
	Load       LoadID
	Model      ModelID
	Device     uint32 // as in the Load
	Pool       uint32
	Op         LoadOp
	Reason     Reason
	Generation Generation
	Start      mono.Time // of copying; of one that did not begin, when it was refused
	End        mono.Time
	Copied     uint64 // bytes
	Free       uint32 // pages, from now on
}
