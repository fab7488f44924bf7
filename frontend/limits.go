package frontend

import (
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// PayloadMax implements transport.Limiter: the scheduler sends documents.
func (*uplink) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, transport.SchedulerDocMax)
}

// PayloadMax implements transport.Limiter: backends send outputs, of any size.
func (h *dataHandler) PayloadMax(_ transport.Link, kind wire.Kind) int {
	if kind == wire.KindOutput {
		return wire.PayloadMax
	}
	return 0
}
