package frontend

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ReplyMarginDefault is Options.ReplyMargin where nothing is said.
const ReplyMarginDefault = 250 * mono.Microsecond

// Options of a Client. Zero values mean the defaults in brackets.
type Options struct {
	Scheduler             string                // its address, or A+B of a group, of which one leads; required, or Schedulers
	Schedulers            []string              // of several, each with models of its own: all of their addresses (or groups), instead of Scheduler
	Listen                string                // where backends read inputs and send outputs ["tcp:127.0.0.1:0"]
	Advertise             string                // that address as backends reach it [the one listened on; where that names no host, the one that the scheduler sees]
	Name                  string                // for logs ["frontend"]
	Token                 string                // the cluster's secret [none]
	Network               transport.Network     // [TCP]
	ArenaBytes            int64                 // memory for inputs [256 MiB]
	MaxInFlight           int                   // open requests [65536]
	PreprocessConcurrency int                   // images decoded at a time [GOMAXPROCS less one, at least 1]
	ImagePixels           int                   // of one image, at most [16 Mi]
	ImageMemory           int64                 // for decoding images, all at a time; one may take 7/8 [48 MiB]
	OutputsMax            int64                 // outputs of more than 16 KiB that are awaited, all at a time [2 GiB]
	ReplyMargin           *mono.Dur             // reserved for the way back of an output [ReplyMarginDefault; of 0: nothing]
	Logger                zerolog.Logger        // [discards]
	Metrics               prometheus.Registerer // [none]
}

// SchedulersMax is how many schedulers a Client is linked to at most.
const SchedulersMax = 64

// groups are the addresses of Scheduler or Schedulers, checked: of each group those of its members.
func (o *Options) groups() ([][]string, error) {
	texts := o.Schedulers
	switch {
	case o.Scheduler != "" && len(texts) > 0:
		return nil, errors.New("frontend: give Options.Scheduler or Options.Schedulers, not both")
	case o.Scheduler != "":
		texts = []string{o.Scheduler}
	case len(texts) == 0:
		return nil, errors.New("frontend: Options.Scheduler is empty: give the scheduler's address, for example tcp:127.0.0.1:9000")
	}
	var groups [][]string
	var all []string
	for _, text := range texts {
		groups = append(groups, transport.SplitGroup(text))
		all = append(all, groups[len(groups)-1]...)
	}
	if len(all) > SchedulersMax {
		return nil, fmt.Errorf("frontend: Options.Schedulers has %d addresses, at most %d are taken", len(all), SchedulersMax)
	}
	for i, address := range all {
		if address == "" || slices.Index(all, address) != i {
			return nil, fmt.Errorf("frontend: Options.Schedulers: %q is empty or there twice: write A,B for two schedulers, A+B for two of one group", address)
		}
	}
	return groups, nil
}

// Tensor is one input or output: little-endian, row-major.
type Tensor struct {
	Name  string
	Type  catalog.DataType
	Shape []int64
	Data  []byte
}

// Request is one item for one model: Inputs, or an Image for models with
// image preprocessing. Shapes may have a leading batch dimension of 1.
type Request struct {
	Model   string
	Version string // "": whichever answers now (Client.Choose)
	// Any: Version is what Choose said, not what somebody asked for. If it goes before the
	// request is on its way, another version of the same tensors may answer.
	Any    bool
	Inputs []Tensor
	Image  []byte // PNG or JPEG
	// ImageGiven: Image is the client's from now on, and is not copied.
	ImageGiven bool
	Timeout    time.Duration // end-to-end; 0: the model's SLO, of best effort an hour
	// Priority among requests of the model that are due at the same instant: 1 goes first, 255 last; 0, the
	// default, goes as 128. Instants have nanoseconds: it is for requests that share their context's deadline.
	Priority wire.Priority
	// Class: a request of wire.ClassBestEffort has no deadline. It gets what time GPUs have to spare, and waits for it for as
	// long as Timeout says, or an hour; where too many wait already it is refused (ErrOverloaded).
	Class wire.Class
	// ID is told the request's, for Client.Cancel, once it is on its way; nil: nobody wants to know.
	ID *atomic.Uint64
	// Trace is the id of the trace that tells of the request: histograms have it as an exemplar. Zero: there is none.
	Trace TraceID
	// Source tells apart whom the application asks for: users, connections. Where the model fails on requests of one source
	// again and again, those run apart from the others', and may be refused (ErrIsolated). 0: the application is one source.
	Source uint64
}

// TraceID is a trace's, as W3C's traceparent has it.
type TraceID [16]byte
