// Package controlcmd is `symphony model` and `symphony plan`: the control plane's API for
// people and scripts. A command makes its calls through package client, prints a table (or
// JSON), and ends: what it has ordered goes on without it.
package controlcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/client"
)

// Flags are those of every command here.
type Flags struct {
	Control  string        `help:"Where the control plane listens: symphony serve, symphony controller (default http://127.0.0.1:8002)." default:"http://127.0.0.1:8002" env:"SYMPHONY_CONTROL" placeholder:"URL"`
	Token    string        `help:"The cluster's token, where it has one." env:"SYMPHONY_TOKEN" placeholder:"TOKEN"`
	Patience time.Duration `help:"How long to try again while the control plane or its store does not answer (default 5s)." default:"5s" placeholder:"SPAN"`
	JSON     bool          `help:"Print JSON instead of tables."`
}

// Waiting are the flags of commands that can wait for what they order: awaited and order say what
// that is.
type Waiting struct {
	Wait    bool          `help:"Wait until ${awaited}, or has failed. Ctrl-C ends the wait, not the ${order}."`
	Timeout time.Duration `help:"With --wait: how long at most; 0: as long as it takes." default:"0" placeholder:"SPAN"`
}

// Validate is called by the command line's parser.
func (w Waiting) Validate() error {
	switch {
	case w.Timeout < 0:
		return fmt.Errorf("--timeout: %v, must be 0 or more", w.Timeout)
	case w.Timeout > 0 && !w.Wait:
		return errors.New("--timeout bounds --wait: give --wait, too")
	}
	return nil
}

// surroundings are where a command runs: tests hand in theirs.
type surroundings struct {
	ctx   context.Context // ended by Ctrl-C
	out   io.Writer
	notes io.Writer // progress and remarks
	in    io.Reader
	live  bool // notes is a terminal: progress is one line that changes
}

// session is a command's.
type session struct {
	surroundings
	*client.Client
	json bool
}

// run runs a command against the control plane.
func (f Flags) run(do func(*session) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := &cli.Checked{To: os.Stdout}
	err := f.runIn(surroundings{ctx, out, os.Stderr, os.Stdin, cli.IsTerminal(os.Stderr)}, do)
	if err == nil {
		err = out.Err
	}
	return err
}

func (f Flags) runIn(at surroundings, do func(*session) error) error {
	c, err := client.New(client.Options{URL: f.Control, Token: f.Token, Patience: f.Patience})
	if err != nil {
		return fmt.Errorf("--control: %w", err)
	}
	defer c.Close()
	return do(&session{at, c, f.JSON})
}

// print prints a document: as JSON, or by the table's printer.
func (s *session) print(doc any, table func()) error {
	if !s.json {
		table()
		return nil
	}
	e := json.NewEncoder(s.out)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// note prints a remark.
func (s *session) note(format string, args ...any) { fmt.Fprintf(s.notes, format+"\n", args...) }

// timed is the session's context with a limit; 0: without.
func (s *session) timed(limit time.Duration) (context.Context, context.CancelFunc) {
	if limit > 0 {
		return context.WithTimeout(s.ctx, limit)
	}
	return context.WithCancel(s.ctx)
}

// split reads NAME or NAME/VERSION.
func split(key string) (name, version string, err error) {
	name, version, has := strings.Cut(key, "/")
	if err := api.CheckName("name", name); err != nil {
		return "", "", err
	}
	if has {
		if err := api.CheckVersion("version", version); err != nil {
			return "", "", err
		}
	}
	return name, version, nil
}

// whole reads NAME/VERSION; flag is the version's own flag's value.
func whole(key, flag string) (name, version string, err error) {
	if name, version, err = split(key); err != nil {
		return "", "", err
	}
	switch {
	case version == "" && flag == "":
		return "", "", fmt.Errorf("which version of %s? write %s/VERSION, or give --model-version", name, name)
	case version != "" && flag != "" && version != flag:
		return "", "", fmt.Errorf("version %s in the name, and --model-version %s: give one of them", version, flag)
	case version == "":
		version = flag
	}
	return name, version, api.CheckVersion("version", version)
}
