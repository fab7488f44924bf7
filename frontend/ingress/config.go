package ingress

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/accesslog"
	"github.com/symphony-serving/symphony/frontend/recording"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Inferrer is what the ingress needs of a frontend; *frontend.Client is one.
type Inferrer interface {
	Infer(ctx context.Context, r frontend.Request) (*frontend.Response, error)
	InferAsync(ctx context.Context, r frontend.Request, done func(*frontend.Response, error))
	Reserve(r *frontend.Reservation, model, version string) error
	InferReserved(ctx context.Context, r *frontend.Reservation, timeout time.Duration) (*frontend.Response, error)
	Release(r *frontend.Reservation)
	Cancel(id wire.RequestID)
	Models() catalog.Catalogue
	Model(name, version string) (catalog.Entry, error)
	Choose(name, version string) (catalog.Entry, error)
	Versions(name string) []string
	Labels(ctx context.Context, name, version string) ([]string, error)
	Ready() bool
	Serving() bool
}

// Metrics is where metrics are registered and what /metrics shows;
// *prometheus.Registry is one.
type Metrics interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Config of a Server. Zero values mean the defaults in brackets.
type Config struct {
	Client  Inferrer       // required
	Logger  zerolog.Logger // [discards]
	Metrics Metrics        // [a registry of its own]
	Version string         // of the server, in its metadata ["unknown"]
	// Repository loads and unloads models [none: they are loaded by backends when these start].
	Repository   Repository
	LoadTimeout  time.Duration       // how long a load waits for its model [5 min]
	IndexTimeout time.Duration       // likewise of an index or unload for the Repository [5 s]
	AccessLog    *accesslog.Log      // is told of each request [none]
	Tracer       *tracing.Tracer     // samples inferences, and is told of them [none]
	Recorder     *recording.Recorder // is told of each inference that is asked for [none]
	GiveUp       func()              // answers all open inferences of Client: a drain's time is over [nobody does]

	// SharedMemory: clients on this host may send names of shared memory instead of tensors. Who comes through a
	// proxy on this host seems to be on it: then this must stay off.
	SharedMemory bool

	MetricsApart bool // ServeMetrics has /metrics and statistics, Serve has not
	AdminApart   bool // likewise ServeAdmin

	BodyMax       int64         // bytes of one body, as sent and decompressed [64 MiB]
	BodiesMax     int64         // bytes of all bodies and decoded tensors at a time [1 GiB, at least twice BodyMax]
	DirectMax     int64         // bytes of slabs that tensors may take while slow senders send them; beyond: in a body [32 MiB, at most an eighth of Arena]
	OutputsMax    int64         // bytes of large outputs, and of replies made of them, until clients have read them [frontend.OutputsMaxDefault]
	Arena         int64         // bytes of the Client's arena; 0: not known
	HeaderMax     int           // bytes of a request's line and headers [8 KiB]
	Connections   int           // open at a time [16384]
	Requests      int           // inferences at a time [16384]
	ItemsMax      int           // items of a client-side batch [4096, at most ItemsOpen]
	ItemsOpen     int           // items of all client-side batches at a time, those of gRPC included [65536]
	HeaderTimeout time.Duration // to send the headers [10 s]
	BodyTimeout   time.Duration // to send the body [30 s]
	BodyRate      int64         // bytes per second that a body must come at, by sixths of BodyTimeout [16 KiB; negative: any]
	IdleTimeout   time.Duration // between requests of a connection [2 min]
	WriteTimeout  time.Duration // to take a reply [30 s]
	FullStatus    int           // status where too much comes ("full", "shed"): 429, or 503 as Triton has it [429]
}

func (c Config) complete() (Config, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	span := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	if c.BodyMax == 0 {
		c.BodyMax = 64 << 20
	}
	if c.BodiesMax == 0 {
		c.BodiesMax = max(1<<30, 2*c.BodyMax)
	}
	if c.DirectMax == 0 {
		c.DirectMax = 32 << 20
		if c.Arena > 0 {
			c.DirectMax = min(c.DirectMax, c.Arena/8)
		}
	}
	if c.OutputsMax == 0 {
		c.OutputsMax = frontend.OutputsMaxDefault
	}
	if c.BodyRate == 0 {
		c.BodyRate = 16 << 10
	}
	def(&c.HeaderMax, 8<<10)
	def(&c.Connections, 1<<14)
	def(&c.Requests, 1<<14)
	def(&c.ItemsOpen, 1<<16)
	def(&c.ItemsMax, min(itemsMost, c.ItemsOpen))
	def(&c.FullStatus, 429)
	span(&c.HeaderTimeout, 10*time.Second)
	span(&c.BodyTimeout, 30*time.Second)
	span(&c.IdleTimeout, 2*time.Minute)
	span(&c.WriteTimeout, 30*time.Second)
	span(&c.LoadTimeout, 5*time.Minute)
	span(&c.IndexTimeout, 5*time.Second)
	switch {
	case c.Client == nil:
		return c, fmt.Errorf("ingress: Config.Client is missing")
	case c.FullStatus != 503 && c.FullStatus != 429:
		return c, fmt.Errorf("ingress: Config.FullStatus %d, must be 429 or 503", c.FullStatus)
	case c.DirectMax < 0:
		return c, fmt.Errorf("ingress: Config.DirectMax %d, must not be negative", c.DirectMax)
	case c.BodyMax < 0 || c.BodiesMax < c.BodyMax:
		return c, fmt.Errorf("ingress: Config.BodiesMax %d, must be at least BodyMax %d", c.BodiesMax, c.BodyMax)
	case c.HeaderMax < 1024 || c.Connections < 1 || c.Requests < 1 || c.ItemsMax < 1 || c.ItemsMax > c.ItemsOpen:
		return c, fmt.Errorf("ingress: HeaderMax must be at least 1024; Connections, Requests and ItemsMax at least 1, ItemsMax at most ItemsOpen")
	case c.HeaderTimeout < 0 || c.BodyTimeout < 0 || c.IdleTimeout < 0 || c.WriteTimeout < 0 || c.LoadTimeout < 0 || c.IndexTimeout < 0:
		return c, fmt.Errorf("ingress: a timeout is negative")
	}
	return c, nil
}
