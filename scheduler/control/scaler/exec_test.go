package scaler

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/control/scaling"
)

func shell(script string) *Exec {
	return &Exec{Command: []string{"/bin/sh", "-c", script, "sh", "{size}", "{remove}", "a{gpus}b"}, Limit: 30 * time.Second}
}

var order = scaling.Order{Size: 4, GPUs: 32, Remove: []string{"gpu-5", "gpu-4"}, Try: 2, Why: "because; $(rm -rf /)"}

// The command is told by arguments and environment; nothing in them is a command.
func TestWhatTheCommandIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "told")
	e := shell(`printf '%s|%s|%s|%s|%s|%s|%s' "$1" "$2" "$3" "$SYMPHONY_SCALE_DEVICE_TYPE" "$SYMPHONY_SCALE_WHY" "$SYMPHONY_SCALE_TRY" "$SYMPHONY_SCALE_SCHEDULER" > ` + path)
	if n, err := e.Scale(t.Context(), "a100", "tcp:x:1", order); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	got, err := os.ReadFile(path)
	if want := "4|gpu-5,gpu-4|a32b|a100|because; $(rm -rf /)|2|tcp:x:1"; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestWhatTheCommandSays(t *testing.T) {
	for _, c := range []struct {
		script  string
		granted int
		wrong   string
	}{
		{"true", 0, ""},
		{"echo hello", 0, ""},
		{"echo hello; echo replicas 3", 3, ""},
		{"echo replicas 3; echo hello", 0, ""},
		{"echo replicas many", 0, ""},
		{"echo replicas -3", 0, ""},
		{"echo no quota >&2; exit 3", 0, "exit status 3: no quota"},
		{"echo replicas 3; exit 1", 0, "exit status 1"},
		{"kill -9 $$", 0, "signal: killed"},
	} {
		n, err := shell(c.script).Scale(t.Context(), "t", "", order)
		if n != c.granted || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %d, %v", c.script, n, err)
		}
	}
	missing := &Exec{Command: []string{"/no/such/command"}}
	if _, err := missing.Scale(t.Context(), "t", "", order); err == nil || !strings.Contains(err.Error(), "control.autoscale.command") {
		t.Errorf("%v", err)
	}
}

// A command that prints without end costs bounded memory, and its end is kept.
func TestOutputIsBounded(t *testing.T) {
	var log bytes.Buffer
	e := shell(`i=0; while [ $i -lt 3000 ]; do echo "line $i of many that are printed"; i=$((i+1)); done; echo replicas 7`)
	e.Log = zerolog.New(&log)
	if n, err := e.Scale(t.Context(), "t", "", order); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if log.Len() > outputMax+outputMax/2 || !strings.Contains(log.String(), `"cut":true`) || !strings.Contains(log.String(), "line 2999 of many") || strings.Contains(log.String(), "line 0 of many") {
		t.Errorf("%d bytes of log", log.Len())
	}
}

// One that hangs is killed, with what it has started, and says so.
func TestACommandThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "child")
	e := shell(`sleep 1000 & echo $! > ` + path + `; wait`)
	e.Limit = 500 * time.Millisecond
	for { // a machine that is busy may not come to start the child
		if _, err := e.Scale(t.Context(), "t", "", order); err == nil || !strings.Contains(err.Error(), "took longer than") {
			t.Fatalf("%v", err)
		}
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			gone(t, strings.TrimSpace(string(text)))
			return
		}
		e.Limit *= 2
	}
}

// One that leaves a child behind with its pipes open does not hold the scaler up.
func TestTheEndOfTheController(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "child")
	done := make(chan error, 1)
	go func() {
		_, err := shell(`echo $$ > `+path+`; sleep 1000`).Scale(ctx, "t", "", order)
		done <- err
	}()
	end := time.Now().Add(30 * time.Second)
	for {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the command was not started")
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a command that was killed has succeeded")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the command holds the controller up")
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if syscall.Kill(n, 0) != nil || err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %s still runs", pid)
		}
	}
}
