package watch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Kind says what an Event tells.
type Kind uint8

const (
	// Batch: one was sent to its GPU. Exec and Until are planned, Due is when its order was due.
	Batch Kind = 1 + iota
	// Done: its report came. Exec and Until are its real start and end.
	Done
	// Drop: a request was given up.
	Drop
	// Queue: a model's candidate was formed anew. Exec and Until are its window.
	Queue
	// Load: weights were ordered onto a GPU, for Why; Exec and Until are the copy's planned start and end, Size its pages,
	// Batch the order's number.
	Load
	// Loaded: the report of that order came. Exec and Until are the copy's real start and end, Why is Arrived or Failed.
	Loaded
	// Evict: weights were ordered off a GPU, for Why. Until is when they were used last.
	Evict
	// Missed: so many events could not be told, Size of them.
	Missed
	// Model, Pool, GPU, Counts, Link and Text are the surroundings: Info has what they say.
	Model
	Pool
	GPU
	Counts
	Link
	Text
	// Memory: what a GPU of a paged pool holds, and what its loader did: Info has it.
	Memory
	// Now: all up to that instant has been told. Of a stream only.
	Now
	kindEnd
)

// String is the kind's name in documents.
func (k Kind) String() string {
	names := [kindEnd]string{"none", "batch", "done", "drop", "queue", "load", "loaded", "evict", "missed", "model", "pool", "gpu", "counts", "link", "text", "memory", "now"}
	if k < kindEnd {
		return names[k]
	}
	return "unknown"
}

// Event is one thing that happened. Which fields count is the Kind's.
type Event struct {
	Kind   Kind
	Reason wire.Reason // Drop
	Why    Why         // Load, Loaded, Evict
	Pool   int32
	Model  wire.ModelID
	GPU    wire.GPUID   // Batch, Done, Load, Loaded, Evict, GPU, Memory
	For    wire.ModelID // Evict, to make Room: the model that comes
	Size   int32        // Batch, Queue: requests of the batch, of the candidate; Done: that ran; Load: pages; Missed: events
	Queued int32        // Queue: requests that wait
	At     mono.Time    // when who tells knew it
	Batch  wire.BatchID // Load, Loaded: the order's number
	Due    mono.Time    // Batch; Queue: the start that deferral alone would choose
	Exec   mono.Time
	Until  mono.Time
	Fetch  mono.Dur // Done: order's arrival at the backend until all inputs were there
	Margin mono.Dur // Drop: what was taken off the deadline

	Request  Request   // Drop
	Requests []Request // Batch: its requests, or none where they are not told
	Info     *Info     // of the surroundings
}

// Request is one of a batch, or one that was dropped.
type Request struct {
	Key               Key
	Arrival, Deadline mono.Time // at its frontend
	Came              mono.Time // Drop: at the scheduler; 0: not told
}

// Key names a request: numbers of frontends are the scheduler's, numbers of requests the frontend's.
type Key struct {
	Frontend wire.FrontendID
	ID       wire.RequestID
}

// String is the key as people give it: "2-9f3c01".
func (k Key) String() string {
	return strconv.FormatUint(uint64(k.Frontend), 10) + "-" + strconv.FormatUint(uint64(k.ID), 16)
}

// ParseKey reads a key as String writes it.
func ParseKey(text string) (Key, error) {
	before, after, ok := strings.Cut(strings.TrimSpace(text), "-")
	frontend, err := strconv.ParseUint(before, 10, 32)
	id, err2 := strconv.ParseUint(after, 16, 64)
	if !ok || err != nil || err2 != nil {
		return Key{}, fmt.Errorf("%q is no request: write FRONTEND-NUMBER as symphony explain and the page show it, for example 2-9f3c01", text)
	}
	return Key{wire.FrontendID(frontend), wire.RequestID(id)}, nil
}

// Number is what people call a batch: the end of its serial number, which is enough to tell the
// batches of a minute apart.
func Number(id wire.BatchID) string {
	return strconv.FormatUint((uint64(id)>>16&(1<<40-1))%1_000_000, 10)
}

// Info is what events of the surroundings say. Of each kind only its own fields are set.
type Info struct {
	Name string `json:"name,omitempty"` // Model, Pool, GPU, Link; Text: what it is about ("plan", "advice")

	// Model
	SLO      mono.Dur         `json:"slo,omitempty"`
	MaxBatch int              `json:"max_batch,omitempty"`
	Profile  *catalog.Profile `json:"profile,omitempty"`
	Bytes    int64            `json:"bytes,omitempty"` // of an item's inputs
	Gone     bool             `json:"gone,omitempty"`  // Model, Pool, GPU: there is none any more

	// Pool
	GPUs    int      `json:"gpus,omitempty"`     // present
	Kept    int      `json:"kept,omitempty"`     // of them those that may take batches early
	Need    float64  `json:"need,omitempty"`     // GPUs that deferral alone would keep busy
	Spent   float64  `json:"deferral,omitempty"` // share of the deferral that batches wait for
	Setting string   `json:"setting,omitempty"`
	Ctrl    mono.Dur `json:"ctrl,omitempty"`   // delay bound: of an order
	Data    mono.Dur `json:"data,omitempty"`   // and of each item's inputs whatever their bytes: in simulations, and files of before MiB
	MiB     mono.Dur `json:"mib,omitempty"`    // and of a MiB of them
	Queued  int      `json:"queued,omitempty"` // requests queued or running
	Every   int      `json:"every,omitempty"`  // one batch in so many is told; 0 and 1: all
	Page    int64    `json:"page,omitempty"`   // bytes of a page where weights come and go by pages; 0: all models are on all GPUs

	// Counts, of a model since it is served
	Came    uint64            `json:"came,omitempty"`
	Served  uint64            `json:"served,omitempty"`
	Late    uint64            `json:"late,omitempty"`
	Warm    uint64            `json:"warm,omitempty"`    // requests that left in batches which found the weights there; in paged pools
	Cold    uint64            `json:"cold,omitempty"`    // that left in the first one with its weights
	Loads   uint64            `json:"loads,omitempty"`   // of its weights that were ordered
	Held    int               `json:"held,omitempty"`    // GPUs that have them, or are loading them
	Unmet   mono.Dur          `json:"unmet,omitempty"`   // p: GPU time that waits for it, and that its holders cannot give in time
	Dropped map[string]uint64 `json:"dropped,omitempty"` // by reason

	Memory *MemoryInfo `json:"memory,omitempty"` // Memory

	// Link
	Role  string   `json:"role,omitempty"`
	Delay mono.Dur `json:"delay,omitempty"` // one way, bound
	RTT   mono.Dur `json:"rtt,omitempty"`

	// Text
	Lines []string `json:"lines,omitempty"`
}
