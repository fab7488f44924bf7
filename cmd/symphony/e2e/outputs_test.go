package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/outputs"
	"github.com/symphony-serving/symphony/frontend"
)

// peak is the most memory that a process has had, or has now, in bytes.
func peak(t *testing.T, p *process, field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == field+":" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

const outputsYAML = `
gc_percent: 50
scheduler: {listen: ["%s", "tcp:%s"]}
frontend: {scheduler: "%s", listen: "%s", http: "%s", grpc: "%s", shared_memory: true, outputs_max: %d}
backend: {name: here, scheduler: "%s", repository: %q, outputs_max: %d, pools: [{device_type: cpu, kind: cpu, devices: 1}]}
control: {http: "127.0.0.1:0"}
`

// Outputs of many sizes, by every way that an answer has: each is the model's own, or the client is told a reason.
func TestOutputs(t *testing.T) {
	t.Parallel()
	sizes, batches, room := []int{1 << 10, 256 << 10, 3 << 20}, []int{1, 8}, int64(96<<20)
	full := os.Getenv("OUTPUTS") == "all"
	if full {
		sizes, batches, room = []int{1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}, []int{1, 4, 8, 32}, 2<<30
	}
	for _, network := range []string{"inproc", "tcp"} {
		t.Run(network, func(t *testing.T) { outputsOver(t, network, sizes, batches, room, full) })
	}
}

func outputsOver(t *testing.T, network string, sizes, batches []int, room int64, full bool) {
	repository := t.TempDir()
	maxBatch := batches[len(batches)-1]
	var names []string
	for _, size := range sizes {
		name, err := outputs.Model(repository, size, maxBatch)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	lead, tcp, web, rpc := "inproc:scheduler", hostPort(freePort(t)), hostPort(freePort(t)), hostPort(freePort(t))
	listen := "inproc:frontend"
	first := lead
	if network == "tcp" {
		lead, listen = "tcp:"+tcp, "tcp:127.0.0.1:0"
	}
	p := start(t, "serve", "serve", "-c", write(t, outputsYAML, first, tcp, lead, listen, web, rpc, room, lead, repository, room))
	waitReady(t, web, names...)
	c, err := outputs.Dial(web, rpc, frontend.Options{Scheduler: "tcp:" + tcp})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Profiles were measured at the start, with whole batches: the most memory counts from here on.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Logf("the most memory counts from the process's start on: %v", err)
	}
	base := peak(t, p, "VmRSS")
	seed := 0
	for _, size := range sizes {
		for _, items := range batches {
			if most, err := strconv.Atoi(os.Getenv("OUTPUTS_MOST")); err == nil && size*items > most {
				continue // on a machine with less memory
			}
			for _, way := range outputs.Ways() {
				seed++
				q := outputs.Question{Size: size, Items: items, Seed: seed}
				began := time.Now()
				err := c.Ask(q, way)
				took, told := time.Since(began), "the model's own"
				if r, is := err.(outputs.Refused); is && int64(q.Bytes())*8 >= room { // a reason: of what is larger than the room alone
					told = r.Why
				} else if err != nil {
					t.Errorf("%d items of %d bytes, %s: %v", items, size, way, err)
				}
				if full {
					t.Logf("%-6s %9d B x %2d  %-20s %8.1f ms  RSS %5d MiB (peak %5d)  %.120s", network, size, items, way, took.Seconds()*1000,
						peak(t, p, "VmRSS")>>20, peak(t, p, "VmHWM")>>20, told)
				}
			}
		}
	}
	// Of each: outputs that wait at the backend, outputs and replies at the frontend; the device has two batches, and three
	// orders keep theirs. Go's collector lets as much garbage come as gc_percent says.
	batch := int64(sizes[len(sizes)-1]) * int64(maxBatch)
	bound := base + (2*room+5*batch)*3/2
	most := peak(t, p, "VmHWM")
	t.Logf("%s: at the start %d MiB, at most %d MiB, bound %d MiB", network, base>>20, most>>20, bound>>20)
	if most > bound {
		t.Errorf("%d MiB of memory, at most %d were to be used", most>>20, bound>>20)
	}
}
