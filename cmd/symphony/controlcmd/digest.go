package controlcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/symphony-serving/symphony/backend/shelf"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/scheduler/control/api"
)

type digestCmd struct {
	Source       string `arg:"" help:"The model's folder, or its URL as --source takes it: with config.yaml and the version's files."`
	ModelVersion string `arg:"" optional:"" name:"version" help:"The version; the only one there is if left out."`
	JSON         bool   `help:"Print JSON: source, version, digest, files, bytes."`
}

// Run prints.
func (c digestCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := &cli.Checked{To: os.Stdout}
	err := c.print(ctx, out, os.Stderr)
	if err == nil {
		err = out.Err
	}
	return err
}

// summed is what --json prints.
type summed struct {
	Source  string `json:"source"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
}

// print writes the digest alone to out, so that a shell can hand it to --digest.
func (c digestCmd) print(ctx context.Context, out, notes io.Writer) error {
	source := c.Source
	if !strings.Contains(source, "://") {
		folder, err := filepath.Abs(source)
		if err != nil {
			return err
		}
		source = folder
	}
	if c.ModelVersion != "" {
		if err := api.CheckVersion("version", c.ModelVersion); err != nil {
			return err
		}
	}
	sum, err := shelf.SumOf(ctx, source, c.ModelVersion)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(summed{c.Source, sum.Version, string(sum.Digest), sum.Files, sum.Bytes})
	}
	fmt.Fprintf(notes, "version %s: %d files, %d bytes\n", sum.Version, sum.Files, sum.Bytes)
	_, err = fmt.Fprintln(out, sum.Digest)
	return err
}
