package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Samples for a model that is not there end with the names of those that are.
func TestSamplesOfNoModel(t *testing.T) {
	dir := t.TempDir()
	text := `
log: {level: error}
rdma: {mode: never}
tcp: {kernel_rtt: never}
scheduler: {listen: ["inproc:scheduler"]}
frontend: {scheduler: "inproc:scheduler", listen: "inproc:frontend", http: "127.0.0.1:0"}
backend:
  scheduler: inproc:scheduler
  pools: [{device_type: emulated, kind: emulated, devices: 1, zoo: [{csv: ../../examples/zoo/zoo_a100.csv, models: [ResNet50, BERT]}]}]
`
	path := filepath.Join(dir, "symphony.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	err := parsed[serveCmd](t, "-c", path, "--samples", "../../examples/digits/images", "--model", "nope").Run()
	if want := `no model "nope"; there are [BERT ResNet50]: name one with --model`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// What is missing of the samples is found before anything is started.
func TestSamplesThatAreMissing(t *testing.T) {
	dir := t.TempDir()
	serve := func() error { return parsed[serveCmd](t, "--samples", dir).Run() }
	if err := serve(); err == nil || !strings.HasPrefix(err.Error(), "--samples: open ") || !strings.Contains(err.Error(), "labels.csv") {
		t.Errorf("no labels: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "labels.csv"), []byte("file,label\n7.png,7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := serve(); err == nil || !strings.HasPrefix(err.Error(), "--samples: stat ") || !strings.Contains(err.Error(), "7.png") {
		t.Errorf("no image: %v", err)
	}
}

// Without an address there is no ingress: not one on all interfaces and a port of its own.
func TestServeNeedsAnAddress(t *testing.T) {
	err := parsed[serveCmd](t, "--set", "frontend.http=").Run()
	if err == nil || !strings.Contains(err.Error(), "frontend.http is empty") {
		t.Errorf("error %v", err)
	}
}

// A measurement of no rounds or no time is refused; it is not one of others than asked for.
func TestProfileOfNothing(t *testing.T) {
	for _, flag := range []string{"--threads", "--rounds", "--seconds"} {
		if err := parsed[profileCmd](t, "m", flag+"=0").Run(); err == nil || err.Error() != flag+": 0, must be at least 1" {
			t.Errorf("%s=0: %v", flag, err)
		}
	}
}
