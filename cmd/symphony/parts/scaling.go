package parts

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/controller"
	"github.com/symphony-serving/symphony/scheduler/control/keda"
	"github.com/symphony-serving/symphony/scheduler/control/scaler"
)

// scaling is who acts on advice.
func (p *Process) scaling() (controller.Scaling, error) {
	a := &p.cfg.Control.Autoscale
	zone, err := a.Location()
	if err != nil {
		return controller.Scaling{}, fmt.Errorf("control.autoscale.zone: %w", err)
	}
	s := controller.Scaling{Kind: a.Scaler, Of: a.Of, Zone: zone}
	if a.Scaler == config.ScalerExec {
		s.Scaler = &scaler.Exec{Command: a.Command, Limit: a.Limit.Std(), Log: p.Log}
	}
	return s, nil
}

// listenKEDA opens the port for KEDA, so that one in use is said at once; nil: none is configured.
func (p *Process) listenKEDA() (net.Listener, error) {
	at := p.cfg.Control.KEDA
	if at == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", at)
	if err != nil {
		return nil, cli.InUse(fmt.Errorf("control.keda: %w", err), "--set control.keda=HOST:PORT")
	}
	return ln, nil
}

// serveKEDA answers KEDA from now on, also while there is no controller yet: with why.
func (k *Control) serveKEDA(ln net.Listener) {
	if ln == nil {
		return
	}
	k.keda, k.KEDA = keda.New(adviceOf{k}), ln.Addr().String()
	k.kedaEnded = make(chan struct{})
	k.p.Log.Info().Str("address", ln.Addr().String()).Msg("KEDA's external scaler: advice by gRPC")
	go func() {
		defer close(k.kedaEnded)
		if err := k.keda.Serve(ln); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			k.p.Log.Error().Err(err).Msg("the service for KEDA has ended; what is served goes on")
		}
	}()
}

// closeKEDA ends that.
func (k *Control) closeKEDA() {
	if k.keda != nil {
		k.keda.Close()
		<-k.kedaEnded
	}
}

// adviceOf is the controller's advice, once there is one.
type adviceOf struct{ k *Control }

// Advice implements keda.Source.
func (a adviceOf) Advice(ctx context.Context) (api.Advice, error) {
	select {
	case <-a.k.opened:
		if a.k.err == nil {
			return a.k.controller.Advice(ctx)
		}
	default:
	}
	return api.Advice{}, a.k.whyAbsent()
}
