package bench

import (
	"os"
	"testing"

	"github.com/alecthomas/kong"
)

// beMain makes the test binary the command, for the processes that a run starts.
const beMain = "SYMPHONY_TEST_BE_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) == "" {
		os.Exit(m.Run())
	}
	var symphony struct {
		Bench Command `cmd:""`
	}
	ctx := kong.Parse(&symphony)
	ctx.FatalIfErrorf(ctx.Run())
}

// parsed is a command with these flags.
func parsed[C any](t *testing.T, flags ...string) (c C) {
	t.Helper()
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(flags); err != nil {
		t.Fatal(err)
	}
	return c
}
