package main

import (
	"os"
	"path/filepath"
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
	err := parsed[serveCmd](t, "-c", path, "--samples", dir, "--model", "nope").Run()
	if want := `no model "nope"; there are [BERT ResNet50]: name one with --model`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
