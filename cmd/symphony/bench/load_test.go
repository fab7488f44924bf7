package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/workload"
)

// What cannot be offered is refused before anybody is dialled.
func TestLoadRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"":                                        "give --scheduler",
		"--url=http://u --scheduler=tcp:s:1":      "one of them",
		"--scheduler=tcp:s:1 --input=x:FP32:1":    "give --url",
		"--url=http://u --slo=-1s":                "--slo: -1s",
		"--url=http://u --senders=-1":             "--senders: -1, must be between 1 and 16384",
		"--url=http://u --senders=0":              "--senders: 0, must be",
		"--scheduler=tcp:s:1 --outstanding=-1":    "--outstanding: -1, must be",
		"--scheduler=tcp:s:1 --outstanding=0":     "--outstanding: 0, must be",
		"--url=http://u --duration=0s":            "--duration: 0s, must be between 10ms and",
		"--url=http://u --duration=-5s":           "--duration: -5s, must be",
		"--url=http://u --warmup=-1s":             "--warmup: -1s, must be",
		"--url=http://u --margin=-1ms":            "--margin: -1ms, must be",
		"--url=http://u/?a=1":                     `--url: "http://u/?a=1" has a query or a fragment`,
		"--url=127.0.0.1:8000":                    `--url: "127.0.0.1:8000" is no address of a server: write http://HOST:PORT`,
		"--url=localhost:8000":                    "write http://HOST:PORT",
		"--url=http://u --metrics=m:1":            "--metrics: \"m:1\" is no address of a server: write http://HOST:PORT",
		"--scheduler=127.0.0.1:9000":              `--scheduler: "127.0.0.1:9000" is no address of a scheduler: write tcp:HOST:PORT`,
		"--scheduler=tcp:127.0.0.1":               "write tcp:HOST:PORT",
		"--scheduler=tcp:s:1,s:2":                 `"s:2" is no address of a scheduler`,
		"--scheduler=tcp:s:1,tcp:s:1":             `"tcp:s:1" is there twice`,
		"--scheduler=tcp:s:1+tcp:s:2,tcp:s:2":     `"tcp:s:2" is there twice`,
		"--scheduler=tcp:s:1+":                    `"" is no address of a scheduler: write tcp:HOST:PORT, with + between those of a group`,
		"--url=http://u --arrivals=gamma":         `--arrivals: "gamma", must be poisson, gamma:SHAPE with`,
		"--url=http://u --arrivals=gamma:x":       `--arrivals: "gamma:x", must be`,
		"--url=http://u --arrivals=gamma:0":       `a shape of 0.01 to 100`,
		"--url=http://u --arrivals=weibull":       `--arrivals: "weibull", must be`,
		"--url=http://u --replay=r --speed=0":     "--speed: 0, must be 0.001 to 1000",
		"--url=http://u --speed=2":                "--speed is of a recording",
		"--url=http://u --json=/nowhere/out.json": "--json: ",
	} {
		if err := parsed[loadCmd](t, strings.Fields(flags)...).check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", flags, err, want)
		}
	}
	if err := parsed[loadCmd](t, "--url=http://u", "--warmup=0s", "--senders=1", "--outstanding=1", "--duration=48h").check(); err != nil {
		t.Error(err)
	}
}

// Every process that symphony sim knows arrives.
func TestLoadArrivals(t *testing.T) {
	for text, want := range map[string]workload.Process{"poisson": workload.Poisson, "gamma:0.3": workload.Gamma, "uniform": workload.Uniform, "constant": workload.Constant} {
		got, shape, err := loadCmd{Arrivals: text}.arrivals()
		if err != nil || got != want || (shape == 0.3) != (want == workload.Gamma) {
			t.Errorf("%s: %s of shape %g, error %v", text, got, shape, err)
		}
		if _, err := workload.New(workload.Config{Process: got, Shape: shape, Rate: 1, Models: 1, Popularity: "equal"}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
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
