package server

import (
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// introductionMax is how long a peer may take to say who it is.
const introductionMax = 10 * mono.Second

// PayloadMax implements transport.Limiter: a frontend says who it is, in few words.
func (f *frontend) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, transport.FrontendDocMax)
}

// PayloadMax implements transport.Limiter: a backend tells of up to thousands of models.
func (b *backend) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, transport.BackendDocMax)
}
