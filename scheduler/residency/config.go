package residency

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Generation numbers the loads of a GPU: a model's weights there are those of one
// generation. It rises over all lives of the GPU; 0 is none.
type Generation uint32

// LoadID names an order to a loader; a report brings it back. 0 is none. From the highest bit on: Config.Index, a number of 40
// bits that follows Config.Serial, the GPU.
type LoadID uint64

// Rule says what is loaded next, and who makes room.
type Rule uint8

const (
	// BySaving takes, among the models with p > 0 whose load would still end by the latest start of a
	// waiting request, the one with the largest p per time of loading; among equals, the load due
	// first. It goes to the smallest id whose loader is open, whose load leaves room, and that has free pages;
	// if there is none, to where the least recently used model makes room. Further copies go to no GPU whose load is the capacity or more.
	// Models without requests make room first, least recently used first; then, least worth first, those that would be
	// worth less than what is loaded, once they are gone.
	BySaving Rule = iota
	// ByPriority is the paper's: each loader that is open takes the largest p > 0 that is not on its
	// GPU; the least recently used make room.
	ByPriority
	// ByPriorityCode is what the paper's program does: models whose demand is met are loaded too, while
	// requests wait (its test of p compares a pointer), and models without requests make room first.
	ByPriorityCode
)

// Config of a Residency; 0 means the default.
type Config struct {
	Rule        Rule
	Capacity    mono.Dur // in which a GPU is to do what waits for it [100 ms]
	Ahead       mono.Dur // a loader gets work while it has less than this [5 ms]
	Outstanding int      // unreported loads of a GPU, at most 4 [2]
	Copies      int      // GPUs that hold one model, at most [16]
	Lag         mono.Dur // a load that cannot begin that long after its planned start is void [10 ms]; by BySaving see latest
	Looks       int      // candidates that one choice looks at [64]
	Rest        mono.Dur // between a choice that found nothing and the next [100 us]; 16 times that after some
	// Packed has BySaving make room on a small id although a larger one has free pages: fewer GPUs
	// hold models, and models are loaded more often.
	Packed bool
	// Loads are numbered so that a device's report of one is of nobody else's: of another engine, whose Index (0 to 255) is
	// another one, or of one that had this Index before, whose numbers lie before Serial, of which 40 bits count.
	Index  int
	Serial uint64
}

// outstandingMax bounds Config.Outstanding.
const outstandingMax = 4

func (c Config) withDefaults() Config {
	def := func(d *mono.Dur, to mono.Dur) {
		if *d <= 0 {
			*d = to
		}
	}
	count := func(n *int, to int) {
		if *n <= 0 {
			*n = to
		}
	}
	def(&c.Capacity, 100*mono.Millisecond)
	def(&c.Ahead, 5*mono.Millisecond)
	def(&c.Lag, 10*mono.Millisecond)
	def(&c.Rest, 100*mono.Microsecond)
	count(&c.Outstanding, 2)
	count(&c.Copies, 16)
	count(&c.Looks, 64)
	c.Outstanding = min(c.Outstanding, outstandingMax)
	return c
}

// Model is what is known of a model beforehand.
type Model struct {
	Pages    int      // of its weights, 1 or more
	LoadTime mono.Dur // from host memory, as told or measured before; above 0
	Pinned   bool     // it is to be on every GPU, and never makes room
}

// Weights are a model's on a GPU, as its backend tells.
type Weights struct {
	Model      wire.ModelID
	Generation Generation // 0: it does not tell
}

// Out collects the effects of calls; the caller empties it. To apply: Displaces, Unloads, Loads,
// Places, Floors, each in their order.
type Out struct {
	Displaces []Displace
	Unloads   []Unload
	Loads     []Load
	Places    []Place
	Floors    []Floor
}

// Reset empties the Out and keeps its memory.
func (o *Out) Reset() {
	o.Displaces, o.Unloads, o.Loads = o.Displaces[:0], o.Unloads[:0], o.Loads[:0]
	o.Places, o.Floors = o.Places[:0], o.Floors[:0]
}

// Load orders a GPU to copy a model's weights into pages that are free.
type Load struct {
	ID         LoadID
	Model      wire.ModelID
	GPU        wire.GPUID
	Generation Generation
	Pages      int
	Start      mono.Time // planned: when the loads before it are done
	Until      mono.Time // planned end
	Latest     mono.Time // it is void if it has not begun by then
	Spare      bool      // for best effort
	Copies     int       // GPUs that hold the model or load it, this one included
}

// Unload orders a GPU to forget a model's weights. Of wire.ModelNone: those of a generation, or with generation 0 all, whose
// model has no id here.
type Unload struct {
	Model      wire.ModelID
	GPU        wire.GPUID
	Generation Generation
	Why        Why
	For        wire.ModelID // to make Room: whose load it is for
	Used       mono.Time    // last
}

// Why weights are unloaded.
type Why uint8

const (
	// Stray: nobody counts on them: a life of the GPU began with more than it is to have, or they are those of an order
	// that is forgotten.
	Stray Why = iota
	// Room: a load needs the pages.
	Room
	// Removed: their model is gone.
	Removed
)

// Place says: batches of the model may start on the GPU from then on. A later
// one of the same generation replaces it.
type Place struct {
	Model      wire.ModelID
	GPU        wire.GPUID
	Generation Generation
	From       mono.Time
}

// Displace takes a Place back: no batch of the model may start there. None is held, granted
// or undone, but where a GPU was lost.
type Displace struct {
	Model      wire.ModelID
	GPU        wire.GPUID
	Generation Generation
}

// Floor says: no batch of the model starts before then, on whatever GPU. Requests that
// cannot wait for it can be given up now; the caller tells of them (Doomed).
type Floor struct {
	Model wire.ModelID
	Until mono.Time
}

// Counts are what a Residency did since New.
type Counts struct {
	Loads   uint64 // ordered
	Unloads uint64 // ordered
	Failed  uint64 // loads that failed
	Lost    uint64 // models on GPUs that were removed, or that a GPU did not have any more
	Floors  uint64 // told
	Walked  uint64 // GPUs that were passed to find where others could load, and pinned models that are missing: work that tests bound
}

// Holder is a GPU that has a model or is loading it.
type Holder struct {
	GPU        wire.GPUID
	Generation Generation
	From       mono.Time // batches may start from then on, as planned or as it was
	Used       mono.Time // last
	Loading    bool
	Uses       int // batches held, granted or undone
}
