package backend

import (
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// PayloadMax implements transport.Limiter: the scheduler sends documents.
func (*uplink) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, transport.SchedulerDocMax)
}

// PayloadMax implements transport.Limiter: a frontend sends inputs as replies to READs,
// which the link takes itself, and no other payload.
func (dataHandler) PayloadMax(transport.Link, wire.Kind) int { return 0 }
