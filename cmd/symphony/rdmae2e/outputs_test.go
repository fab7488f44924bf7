package rdmae2e

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/cmd/symphony/outputs"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
)

var outputsAll = flag.Bool("outputs.all", false, "more sizes and batches of outputs")

// Outputs arrive over lanes, each word in its place, by every way that an answer has: batches of more outputs than a
// link's send buffer takes among them. -outputs.all has more sizes and batches, as far as the
// VM's memory goes:
//
//	RDMA_VM_PACKAGES=./cmd/symphony/rdmae2e RDMA_TEST_ARGS='-test.run=TestLargeOutputs -test.v -test.timeout=20m -outputs.all' RDMA_VM_LIMIT=1300 make test-rdma
func TestLargeOutputs(t *testing.T) {
	need(t)
	sizes, batches := []int{1 << 10, 5 << 19}, []int{1, 4}
	if *outputsAll {
		sizes, batches = []int{1 << 10, 256 << 10, 5 << 19, 16 << 20, 64 << 20}, []int{1, 2, 8, 32}
	}
	const most = 140 << 20 // of a request
	repository := t.TempDir()
	var names []string
	for _, size := range sizes {
		maxBatch := 1
		for _, n := range batches {
			if size*n <= most {
				maxBatch = n
			}
		}
		name, err := outputs.Model(repository, size, maxBatch)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	c := newCluster(t, "always", repository, "{device_type: cpu, kind: cpu, devices: 1, threads: 1}")
	c.start(names[0])
	for _, name := range names {
		c.ready(name)
	}
	c.links(c.port.backendMetrics, 2, 0)
	nic, err := openDevice(verbs.New())
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	address := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	ask, err := outputs.Dial(address(c.port.http), address(c.port.grpc), frontend.Options{Scheduler: "tcp:" + address(c.port.scheduler), Token: clusterToken,
		Network: rdmalink.New(rdmalink.Config{TCP: tcp.New(), NIC: nic, Require: true}), ArenaBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	seed := 0
	for _, size := range sizes {
		for _, items := range batches {
			if size*items > most {
				continue
			}
			for _, way := range outputs.Ways() {
				if way == "json" && size*items > 10<<20 {
					continue // emulation takes a minute for each
				}
				seed++
				began := time.Now()
				if err := ask.Ask(outputs.Question{Size: size, Items: items, Seed: seed}, way); err != nil {
					t.Errorf("%d items of %d bytes, %s: %v", items, size, way, err)
				}
				t.Logf("%9d B x %2d  %-20s %8.1f ms", size, items, way, time.Since(began).Seconds()*1000)
			}
		}
	}
	say("%d answers of %v bytes an item, batches of %v over RDMA: each word is the model's own", seed, sizes, batches)
	ask.Close()
	c.stop()
}
