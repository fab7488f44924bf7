package parts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/wire"
)

// tellMost is how long a scheduler may take to lead, or to hand over: it takes milliseconds.
const tellMost = 10 * time.Second

// TellScheduler gives a scheduler of a group an order (promote, step-down), waits until it is carried
// out, and says what has come of it.
func TellScheduler(cfg config.Config, address, order string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tellMost)
	defer cancel()
	a := &asked{outcome: make(chan error, 1)}
	hello := wire.Hello{Role: wire.RoleController, Incarnation: uint64(time.Now().UnixNano()), Token: transport.Token(cfg.Token), Name: "symphony scheduler " + order}
	l, err := tcp.New().Dial(ctx, address, transport.Options{Hello: hello}, a)
	if err != nil {
		return "", err
	}
	defer l.Close(nil)
	transport.SendDoc(l, wire.DocOrder, catalog.Order{ID: 1, Kind: order})
	select {
	case err = <-a.outcome:
	case <-ctx.Done():
		err = fmt.Errorf("no answer within %v", tellMost)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", address, err)
	}
	if order == catalog.OrderPromote {
		return address + " leads", nil
	}
	return address + " has handed over", nil
}

// asked waits for what comes of an order.
type asked struct{ outcome chan error }

func (a *asked) end(err error) {
	select {
	case a.outcome <- err:
	default: // it has ended
	}
}

// Receive implements transport.Handler.
func (a *asked) Receive(_ transport.Link, f transport.Frame) {
	var d wire.Doc
	if f.Kind != wire.KindDoc || d.Decode(f.Body) != nil {
		return
	}
	switch d.Type {
	case wire.DocOutcome:
		out, err := catalog.DecodeOutcome(f.Payload)
		if err == nil && out.Error != "" {
			err = errors.New(out.Error)
		}
		a.end(err)
	case wire.DocAdmitted:
		if adm, err := catalog.DecodeAdmitted(f.Payload); err == nil && adm.Error != "" {
			a.end(errors.New(adm.Error))
		}
	}
}

// Buffer implements transport.Handler.
func (*asked) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Closed implements transport.Handler.
func (a *asked) Closed(_ transport.Link, err error) {
	a.end(fmt.Errorf("the link ended before the answer: %w", err))
}
