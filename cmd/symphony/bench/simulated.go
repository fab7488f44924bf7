package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// Common to the commands that simulate, and leave a report in a folder.

// atATime reads --parallel.
func atATime(n int) (int, error) {
	if n < 0 {
		return 0, fmt.Errorf("--parallel: %d, must be 1 or more, or 0 for one for each processor", n)
	}
	if n == 0 {
		return cli.Processors(), nil
	}
	return n, nil
}

// folderOf reads --out. A short run has a folder of its own: it must not write over the full report.
func folderOf(out, name string, quick bool) string {
	switch {
	case out != "":
		return out
	case quick:
		return filepath.Join("build", name)
	}
	return filepath.Join("bench", name)
}

// asGiven is the command as a report tells it.
func asGiven(name string, quick bool) string {
	if quick {
		name += " --quick"
	}
	return "symphony bench " + name
}

// reported runs a benchmark until its end or Ctrl-C, and says where the report is.
func reported(out string, run func(context.Context) error) error {
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	if err := run(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the report is in %s\n", filepath.Join(out, "REPORT.md"))
	return nil
}
