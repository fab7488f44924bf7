package cli

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// Logger writes to standard error: readable on a terminal, JSON otherwise.
func Logger(c config.Log) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.TimeFieldFormat = time.RFC3339Nano // milliseconds matter here
	var out io.Writer = os.Stderr
	if c.Format == "console" || c.Format == "auto" && IsTerminal(os.Stderr) {
		out = zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05.000", NoColor: !IsTerminal(os.Stderr)}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}

// IsTerminal tells a terminal from a file or a pipe.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
