package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/frontend"
)

// TestDigitsOnGPUs: scheduler, frontend and two backends of two GPUs each answer the digits
// as ONNX Runtime called directly, to the byte, through pinned memory alone; at the end
// nothing is left of it. (The GPUs are software, and the CPU computes.)
func TestDigitsOnGPUs(t *testing.T) {
	beside(t)
	d := openDirect(t, "digits-cnn")
	d.ladder = cuda.Ladder(d.model.Spec.MaxBatch)
	c := &cluster{t: t, address: hostPort(freePort(t)), metrics: hostPort(freePort(t))}
	c.startScheduler()
	var hosts []*gpuHost
	for i := range 2 {
		hosts = append(hosts, startGPUHost(t, fmt.Sprint("gpus-", i), c.address))
	}
	http := hostPort(freePort(t))
	start(t, "frontend", "frontend", "--scheduler", "tcp:"+c.address, "--http", http)
	waitReady(t, http, "digits-cnn")
	c.dial("digits-cnn")
	c.waitGPUs("digits-cnn", len(hosts)*fakeGPUs, 60*time.Second)
	var before []look
	for _, h := range hosts {
		before = append(before, h.do("look"))
	}
	d.compare(t, c.client)
	d.compareHTTP(t, http)
	flood(t, c.client, d, 2000)

	total := fakecuda.Stats{}
	for i, h := range hosts {
		after := h.do("look")
		if after.Open.PinnedBytes == 0 || after.Open.Contexts != fakeGPUs || after.Open.Programs != fakeGPUs {
			t.Errorf("%s: open is %+v", h.name, after.Open)
		}
		for k := range fakeGPUs {
			was, is := before[i].GPUs[k], after.GPUs[k]
			runs, in, out := is.Runs-was.Runs, is.In-was.In, is.Out-was.Out
			if is.Unpinned != was.Unpinned {
				t.Errorf("%s, GPU %d: %d copies of memory that is not pinned", h.name, k, is.Unpinned-was.Unpinned)
			}
			if in != runs || out != runs {
				t.Errorf("%s, GPU %d: %d runs, %d copies in, %d out", h.name, k, runs, in, out)
			}
			total.Runs, total.BytesIn = total.Runs+runs, total.BytesIn+is.BytesIn-was.BytesIn
		}
	}
	if item := d.model.Spec.Inputs[0].ByteSize(); total.Runs == 0 || total.BytesIn < 2021*item {
		t.Errorf("%+v", total)
	}
	t.Logf("%d batches, %d bytes copied in, all of pinned memory", total.Runs, total.BytesIn)
	for _, h := range hosts {
		if end := h.do("end"); end.Error != "" || len(end.Misused) > 0 || end.Open != (fakecuda.Counts{}) {
			t.Errorf("%s: %+v", h.name, end)
		}
	}
}

// flood asks n times, 64 at once, and demands an answer for each.
func flood(t *testing.T, client *frontend.Client, d direct, n int) {
	t.Helper()
	digits, in := d.digits(t), d.model.Spec.Inputs[0]
	answers := make(chan error, n)
	const atOnce = 64
	room := make(chan struct{}, atOnce)
	for i := range n {
		room <- struct{}{}
		client.InferAsync(context.Background(), frontend.Request{Model: d.model.Spec.Name, Timeout: 5 * time.Second,
			Inputs: []frontend.Tensor{{Name: in.Name, Type: in.Type, Shape: in.Shape, Data: digits[i%len(digits)]}}},
			func(r *frontend.Response, err error) {
				if err == nil {
					r.Release()
				}
				<-room
				answers <- err
			})
	}
	for range n {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
}
