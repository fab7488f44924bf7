// Package scaler has what acts on the controller's advice from within its process: a command (Exec).
// Kubernetes is acted on from outside, by whoever reads the advice.
package scaler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/control/scaling"
)

// Exec runs a command for each order. It is told by its arguments, in which {size}, {gpus},
// {device_type}, {scheduler}, {remove}, {try} and {why} are replaced, and by its environment:
// SYMPHONY_SCALE_SIZE and so on. {remove} are names with commas between.
//
// Exit status 0: there will be as many replicas, now or in a while; "replicas N" as the last line of
// its output says that there will be N. Anything else: it failed, and is run again later. It may be
// run again for the same size, and must not mind.
//
// What it prints goes to the log, at most outputMax bytes. After Limit it is killed, with all that
// it has started.
type Exec struct {
	Command []string
	Limit   time.Duration // [1 minute]
	Log     zerolog.Logger
}

const (
	// outputMax bounds what is kept of a command's output: its end.
	outputMax = 16 << 10
	// reasonMax bounds what an error has of it.
	reasonMax = 300
	// killWait is how long its pipes may stay open after it was killed.
	killWait = 2 * time.Second
)

// Scale implements the controller's Scaler.
func (e *Exec) Scale(ctx context.Context, deviceType, scheduler string, o scaling.Order) (granted int, err error) {
	limit := e.Limit
	if limit <= 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v, and was killed", limit))
	defer cancel()
	told := []struct{ name, value string }{{"size", strconv.Itoa(o.Size)}, {"gpus", strconv.Itoa(o.GPUs)}, {"device_type", deviceType}, {"scheduler", scheduler},
		{"remove", strings.Join(o.Remove, ",")}, {"try", strconv.Itoa(o.Try)}, {"why", o.Why}}
	var pairs []string
	env := os.Environ()
	for _, t := range told {
		pairs = append(pairs, "{"+t.name+"}", t.value)
		env = append(env, "SYMPHONY_SCALE_"+strings.ToUpper(t.name)+"="+t.value)
	}
	replace := strings.NewReplacer(pairs...)
	var args []string
	for _, a := range e.Command[1:] {
		args = append(args, replace.Replace(a))
	}
	out := &tail{}
	c := exec.CommandContext(ctx, e.Command[0], args...)
	c.Env, c.Stdout, c.Stderr, c.WaitDelay = env, out, out, killWait
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	err = c.Run()
	if text := out.text(); text != "" {
		e.Log.Info().Str("command", e.Command[0]).Str("device_type", deviceType).Bool("cut", out.cut).Str("output", text).Msg("the scaler's command has printed")
	}
	if err != nil {
		return 0, e.wrong(ctx, err, out)
	}
	return grantedBy(out.text()), nil
}

// wrong is why it failed, with the last line that it printed.
func (e *Exec) wrong(ctx context.Context, err error, out *tail) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("control.autoscale.command: %w", err)
	}
	last := lastLine(out.text())
	if len(last) > reasonMax {
		last = last[:reasonMax] + "..."
	}
	if last != "" {
		return fmt.Errorf("%s: %w: %s", e.Command[0], err, last)
	}
	return fmt.Errorf("%s: %w", e.Command[0], err)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// grantedBy is the size that a command says there will be; 0: it does not say.
func grantedBy(text string) int {
	number, says := strings.CutPrefix(lastLine(text), "replicas ")
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if !says || err != nil || n < 0 {
		return 0
	}
	return n
}

// tail keeps the end of what is written to it.
type tail struct {
	buf bytes.Buffer
	cut bool
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > outputMax {
		p, t.cut = p[len(p)-outputMax:], true
	}
	if over := t.buf.Len() + len(p) - outputMax; over > 0 {
		t.buf.Next(over)
		t.cut = true
	}
	t.buf.Write(p)
	return n, nil
}

func (t *tail) text() string { return strings.ToValidUTF8(strings.TrimSpace(t.buf.String()), "?") }
