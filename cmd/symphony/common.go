package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// common are the flags of every part.
type common struct {
	Config string   `short:"c" help:"Configuration file (YAML)." placeholder:"FILE" type:"path" env:"SYMPHONY_CONFIG"`
	Set    []string `help:"Set one key of the configuration, over the file: --set scheduler.margin=2ms. Repeatable." placeholder:"KEY=VALUE" sep:"none"`
	Log    string   `help:"Log level: debug, info, warn, error." placeholder:"LEVEL"`
	Format string   `name:"log-format" help:"auto, console or json." placeholder:"FORMAT"`
}

// load joins the layers; named are the values of a subcommand's own flags,
// where empty means not given.
func (c common) load(named ...config.Set) (config.Config, error) {
	var sets []config.Set
	for _, kv := range c.Set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return config.Config{}, fmt.Errorf("--set %q: write KEY=VALUE, for example --set scheduler.margin=2ms", kv)
		}
		sets = append(sets, config.Set{Key: key, Value: value})
	}
	for _, s := range append(named, config.Set{Key: "log.level", Value: c.Log}, config.Set{Key: "log.format", Value: c.Format}) {
		if s.Value != "" {
			sets = append(sets, s)
		}
	}
	return config.Load(c.Config, sets, os.Environ())
}

// newLogger writes to standard error: readable on a terminal, JSON otherwise.
func newLogger(c config.Log) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.TimeFieldFormat = time.RFC3339Nano // milliseconds matter here
	var out io.Writer = os.Stderr
	if c.Format == "console" || c.Format == "auto" && isTerminal(os.Stderr) {
		out = zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05.000", NoColor: !isTerminal(os.Stderr)}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}

// checked remembers that a writer failed, for those who print and do not look: a
// full disk behind standard output must not look like success.
type checked struct {
	to  io.Writer
	err error
}

func (c *checked) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.to.Write(p)
	c.err = err
	return n, err
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// untilSignal is a context that the first Ctrl-C or SIGTERM cancels: drain.
// The second one ends the process at once.
func untilSignal(log zerolog.Logger) (context.Context, context.CancelFunc) {
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

// inUse adds to the error of a listener whose port is taken which flag sets another.
func inUse(err error, flag string) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%w; is another server running there? %s sets another address", err, flag)
}

// drainContext bounds the drain of all parts.
func drainContext(c config.Config) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(c.Drain))
}
