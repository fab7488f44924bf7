package grpcin

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/frontend/ingress"
)

// Config of a Server. Zero values mean the defaults in brackets.
type Config struct {
	Web     *ingress.Server       // required: what both protocols share
	Client  ingress.Inferrer      // required: the one of Web
	Logger  zerolog.Logger        // [discards]
	Metrics prometheus.Registerer // [none]

	// AdminApart: loading, unloading, settings and shared memory are refused here, as they are at
	// HTTP's main address where admin calls have one of their own.
	AdminApart bool
	// MetricsApart: so are statistics, which HTTP has beside /metrics then.
	MetricsApart bool

	MessageMax  int           // bytes of one message, as sent and decompressed [64 MiB]
	HeldMax     int64         // bytes of messages that are coming, of all connections [1 GiB, at least twice MessageMax]
	UnsentMax   int64         // bytes of streams' replies that wait for their clients, of all streams [256 MiB, at least 4 times MessageMax]
	HeaderMax   int           // bytes of a call's metadata [8 KiB]
	Connections int           // open at a time [16384]
	Calls       int           // of one connection at a time [4096]
	StreamCalls int           // inferences of one ModelStreamInfer at a time [256]
	GreetTime   time.Duration // for a new connection to speak HTTP/2 [10 s]
	BodyTime    time.Duration // for a call's message to come [30 s]
	IdleTime    time.Duration // of a connection without calls [10 min]
	PingTime    time.Duration // a connection in use is asked for a sign of life each so often [30 s]
}

// MessageMost is the largest Config.MessageMax.
const MessageMost = 1<<31 - 1

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
	def(&c.MessageMax, 64<<20)
	if c.HeldMax == 0 {
		c.HeldMax = max(1<<30, 2*int64(c.MessageMax))
	}
	if c.UnsentMax == 0 {
		c.UnsentMax = max(256<<20, 4*int64(c.MessageMax))
	}
	def(&c.HeaderMax, 8<<10)
	def(&c.Connections, 1<<14)
	def(&c.Calls, 1<<12)
	def(&c.StreamCalls, 256)
	span(&c.GreetTime, 10*time.Second)
	span(&c.BodyTime, 30*time.Second)
	span(&c.IdleTime, 10*time.Minute)
	span(&c.PingTime, 30*time.Second)
	switch {
	case c.Web == nil || c.Client == nil:
		return c, fmt.Errorf("grpcin: Config.Web and Config.Client must be there")
	case c.MessageMax < 1 || c.MessageMax > MessageMost:
		return c, fmt.Errorf("grpcin: Config.MessageMax %d, must be 1 to %d", c.MessageMax, MessageMost)
	case c.HeldMax < int64(c.MessageMax):
		return c, fmt.Errorf("grpcin: Config.HeldMax %d, must be at least MessageMax %d", c.HeldMax, c.MessageMax)
	case c.UnsentMax < 1:
		return c, fmt.Errorf("grpcin: Config.UnsentMax %d, must be at least 1", c.UnsentMax)
	case c.HeaderMax < 1024 || c.Connections < 1 || c.Calls < 1 || c.StreamCalls < 1:
		return c, fmt.Errorf("grpcin: HeaderMax must be at least 1024; Connections, Calls and StreamCalls at least 1")
	case c.GreetTime < 0 || c.BodyTime < 0 || c.IdleTime < 0 || c.PingTime < 0:
		return c, fmt.Errorf("grpcin: a timeout is negative")
	}
	return c, nil
}
