package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// failing is a device that can run nothing.
type failing struct{}

func (failing) Close() {}
func (failing) Launch(b *executor.Batch) {
	now := mono.Now()
	go b.Finish(now, now, errors.New("the GPU fell off the bus"))
}

// lines is a log that a test may read while it is written.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

// about are the lines with all the words.
func (l *lines) about(words ...string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.SplitSeq(l.all.String(), "\n") {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		out = append(out, line)
	}
	return out
}

// counted is symphony_backend_failed_total of a model and cause.
func counted(t *testing.T, from prometheus.Gatherer, model, cause string) float64 {
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "symphony_backend_failed_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["pool"] == "e" && labels["model"] == model && labels["cause"] == cause {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// What a device says when it fails, and why orders are refused, is in the log: once
// with all that one needs to find it, then at most every few seconds. The counter
// counts all of it.
func TestFailuresAreToldAndCounted(t *testing.T) {
	c := newCluster(t)
	defer c.close()
	log, registry := &lines{}, prometheus.NewRegistry()
	b, err := New(context.Background(), Config{Name: "b", Scheduler: "inproc:s", Network: c.network, Logger: zerolog.New(log), Metrics: registry,
		Pools: []PoolConfig{{DeviceType: "e", Kind: KindEmulated, Devices: 2,
			Zoo: []repository.Zoo{{CSV: "../examples/zoo/zoo_a100.csv", Models: []string{"MobileNet", "VGG16"}, MaxBatch: 4}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c.wait("registration", func() bool { return c.link != nil })
	p := b.pools[0]
	p.executors[1] = executor.New(failing{}, p.models, nil, transport.Heap{}, b, b.metrics.observer(0, 1))
	c.admit(100)
	c.wait("the data link", func() bool { return b.Ready() && b.data(3) != nil })

	good := uint32(p.models[0].InputSize)
	send := func(id wire.BatchID, model wire.ModelID, length uint32, items int) {
		c.mu.Lock()
		l := c.link
		c.mu.Unlock()
		now := mono.Now()
		m := wire.Batch{Epoch: 100, Batch: id, Model: model, Device: 1, GPU: 7, Exec: now, Until: now, Latest: mono.Never}
		for i := range items {
			m.Items = append(m.Items, wire.BatchItem{Request: wire.RequestID(int(id)*10 + i), Frontend: 3, Deadline: now.Add(20 * mono.Second), Input: wire.SlabRef{Length: length}})
		}
		_ = l.Send(m.Append(nil))
	}
	id := wire.BatchID(0)
	order := func(model wire.ModelID, length uint32, items int) {
		id++
		send(id, model, length, items)
		c.wait("a report", func() bool { return len(c.dones) == int(id) })
	}
	const each = 20
	for range each {
		order(10, good, 2)   // the device fails it
		order(77, good, 1)   // of no model
		order(10, good, 5)   // more than max_batch
		order(10, good+1, 1) // an input of another size
	}
	name := p.specs[0].Name
	for cause, want := range map[string]struct {
		words    []string
		requests float64
		model    string
	}{
		"device":        {[]string{"fell off the bus", `"model":"` + p.specs[0].Key(), `"batch":1,`, `"device":1`, `"gpu":7`, `"pool":"e"`, `"requests":2`}, 2 * each, name},
		"unknown_model": {[]string{`"model_id":77`, `"batch":2,`}, each, ""},
		"batch_size":    {[]string{"max_batch", `"got":5`, `"want":4`}, 5 * each, name},
		"input_size":    {[]string{fmt.Sprintf(`"got":%d`, good+1), fmt.Sprintf(`"want":%d`, good)}, each, name},
	} {
		if got := log.about(append(want.words, `"cause":"`+cause)...); len(got) != 1 {
			t.Errorf("%s: %d lines with %q, want 1, in\n%s", cause, len(got), want.words, log.all.String())
		}
		if n := len(log.about(`"cause":"` + cause)); n != 1 {
			t.Errorf("%s: %d lines within faultEvery, want 1", cause, n)
		}
		if got := counted(t, registry, want.model, cause); got != want.requests {
			t.Errorf("%s: counted %v requests, want %v", cause, got, want.requests)
		}
	}
}

// A line that comes after others were kept back says how many, and another model's or
// device's fault is not kept back by them.
func TestFaultsKeptBackAreCounted(t *testing.T) {
	log := &lines{}
	s := &faults{log: zerolog.New(log)}
	p := &pool{}
	f := &executor.Failure{Cause: executor.CauseFull, Order: &executor.Order{ModelIndex: -1}, Requests: 3}
	start := mono.Now()
	for i := range 11 {
		requests, orders, ok := s.due(p, 0, f, start.Add(mono.Dur(i)*faultEvery/10))
		if ok != (i%10 == 0) {
			t.Errorf("after %d tenths: due %v", i, ok)
		}
		if i == 10 && (requests != 27 || orders != 9) {
			t.Errorf("%d requests of %d batches kept back, want 27 of 9", requests, orders)
		}
	}
	if _, _, ok := s.due(p, 1, f, start.Add(faultEvery)); !ok {
		t.Error("another device's fault was kept back")
	}
	if _, _, ok := s.due(p, 0, &executor.Failure{Cause: executor.CauseModel, Order: f.Order}, start); !ok {
		t.Error("another cause was kept back")
	}
	for id := range 1000 { // models that are none are one kind
		o := &executor.Order{ModelIndex: -1 - id}
		s.due(p, 0, &executor.Failure{Cause: executor.CauseModel, Order: o}, start)
	}
	if len(s.said) != 3 {
		t.Errorf("%d kinds of faults are remembered, want 3", len(s.said))
	}
}
