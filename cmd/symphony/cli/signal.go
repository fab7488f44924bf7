package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
)

// UntilSignal is a context that the first Ctrl-C or SIGTERM cancels: drain.
// The second one ends the process at once.
func UntilSignal(log zerolog.Logger) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		log.Info().Stringer("signal", s).Msg("draining: open requests are finished, new ones refused; once more ends at once")
		cancel()
		<-signals
		log.Warn().Msg("ended without draining")
		os.Exit(130)
	}()
	return ctx, cancel
}
