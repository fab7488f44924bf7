package bench

import (
	"context"
	"strings"
	"testing"
	"time"
)

// What cannot be offered is refused before anybody is dialled.
func TestLoadRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"":                                 "give --scheduler",
		"--url=u --scheduler=s":            "one of them",
		"--scheduler=s --input=x:FP32:1":   "give --url",
		"--url=u --slo=-1s":                "--slo: -1s",
		"--url=u --senders=-1":             "--senders: -1, must be between 1 and 16384",
		"--url=u --senders=0":              "--senders: 0, must be",
		"--scheduler=s --outstanding=-1":   "--outstanding: -1, must be",
		"--scheduler=s --outstanding=0":    "--outstanding: 0, must be",
		"--url=u --duration=0s":            "--duration: 0s, must be between 10ms and",
		"--url=u --duration=-5s":           "--duration: -5s, must be",
		"--url=u --warmup=-1s":             "--warmup: -1s, must be",
		"--url=u --margin=-1ms":            "--margin: -1ms, must be",
		"--url=u --json=/nowhere/out.json": "--json: ",
	} {
		if err := parsed[loadCmd](t, strings.Fields(flags)...).check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", flags, err, want)
		}
	}
	if err := parsed[loadCmd](t, "--url=u", "--warmup=0s", "--senders=1", "--outstanding=1", "--duration=48h").check(); err != nil {
		t.Error(err)
	}
}

// An interrupted run counts what had passed by then, however long it drains.
func TestCountedUntil(t *testing.T) {
	c := loadCmd{Warmup: 10 * time.Millisecond, Duration: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	counted := c.countedUntil(ctx)
	if got := counted(); got != time.Hour {
		t.Errorf("not interrupted: %v counted", got)
	}
	start := time.Now()
	counted = c.countedUntil(ctx)
	time.Sleep(30 * time.Millisecond)
	cancel()
	time.Sleep(time.Second) // a drain
	if got := counted(); got < 20*time.Millisecond || got > time.Since(start)-500*time.Millisecond {
		t.Errorf("interrupted 20 ms after the warm-up: %v counted", got)
	}
	c.Warmup = time.Hour
	if got := c.countedUntil(ctx)(); got > 0 {
		t.Errorf("interrupted in the warm-up: %v counted", got)
	}
}
