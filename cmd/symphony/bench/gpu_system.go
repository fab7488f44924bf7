package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/bench/gpu"
	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/examples/zoo/nets"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// gpuArena is memory for inputs: pictures of 600 kB, of which hundreds are under way.
const gpuArena = 1 << 30

// policies of the live path. The first is how it serves.
const (
	policyOurs     = "Symphony"
	policyDeferred = "full deferral"
	policyEager    = "eager"
)

// serve starts a whole system in this process, as serve does, with links over TCP.
func (h *gpuMachine) serve(ctx context.Context, rec *gpu.Recorder) (*gpu.System, error) {
	models, err := h.models()
	if err != nil {
		return nil, err
	}
	items := map[string]func(i int) []byte{}
	specs := map[string]*catalog.ModelSpec{}
	for i := range models {
		m := &models[i].Spec
		items[m.Name], _ = itemsOf(m)
		specs[m.Name] = m
	}
	workloads, served := h.workloads(specs)
	cfg := config.Default()
	cfg.Log.Level, cfg.RDMA.Mode, cfg.TCP.KernelRTT = "error", "never", "never"
	cfg.Backend.Name, cfg.Backend.Repository = "here", gathered
	cfg.Scheduler.Listen, cfg.Frontend.Listen, cfg.Frontend.Arena = []string{"tcp:127.0.0.1:0"}, "tcp:127.0.0.1:0", gpuArena
	pool := h.pool
	pool.Models = served
	cfg.Backend.Pools = []config.Pool{pool}
	p, err := parts.New(cfg)
	if err != nil {
		return nil, err
	}
	p.GPUs, p.Watch = h.gpus, watchBatches(rec)
	s, err := p.ServeLibrary(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Client.WaitReady(ctx, served...); err != nil {
		return nil, errors.Join(fmt.Errorf("not all of %v are served: %w", served, err), s.Drain())
	}
	g := &gpu.System{Client: s.Client, Workloads: workloads, Policies: []string{policyOurs, policyDeferred, policyEager}, Close: s.Drain}
	if h.quick {
		g.Policies = []string{policyOurs, policyEager}
	}
	if e := s.Client.Models().Entries; len(e) > 0 {
		g.GPUs = e[0].GPUs
	}
	g.Input = func(model string) load.ModelInput { return inputOf(specs[model], items[model](1)) }
	g.Use = func(ctx context.Context, policy string) error {
		chosen, err := policyOf(policy)
		if err != nil {
			return err
		}
		return p.Again(ctx, s, chosen, served...)
	}
	return g, nil
}

func policyOf(name string) (parts.Policy, error) {
	switch name {
	case policyOurs:
		return parts.Policy{Tuner: config.Default().Scheduler.Tuner}, nil
	case policyDeferred:
		return parts.Policy{}, nil
	case policyEager:
		return parts.Eager(), nil
	}
	return parts.Policy{}, fmt.Errorf("no policy %q", name)
}

// workloads are one network of the zoo alone, and all of them; the digits where there are none.
func (h *gpuMachine) workloads(specs map[string]*catalog.ModelSpec) (all []gpu.Workload, served []string) {
	for _, m := range nets.Zoo() {
		if specs[m.Name] != nil {
			served = append(served, m.Name)
		}
	}
	if len(served) == 0 {
		for name := range specs {
			served = append(served, name)
		}
		slices.Sort(served)
	}
	all = []gpu.Workload{{Name: served[0], Models: served[:1]}}
	if len(served) > 1 && !h.quick {
		all = append(all, gpu.Workload{Name: fmt.Sprintf("mix of %d", len(served)), Models: served})
	}
	if h.quick {
		served = served[:1]
	}
	return all, served
}

// watchBatches tells the recorder. Reports' instants are of this process's clock again.
func watchBatches(rec *gpu.Recorder) server.Watch {
	return server.Watch{
		Dispatched: func(d *shard.Dispatch) { rec.Dispatched(d.Batch, d.Model, d.GPU, len(d.Requests), d.Exec, d.Until) },
		Done: func(d *wire.Done, shift mono.Dur) {
			rec.Done(d.Batch, d.Start.Add(-shift), d.End.Add(-shift), int(d.Ran))
		},
	}
}

// inputOf parts an item into its tensors.
func inputOf(spec *catalog.ModelSpec, item []byte) load.ModelInput {
	in := load.ModelInput{Name: spec.Name}
	for _, t := range spec.Inputs {
		n := t.ByteSize()
		in.Inputs = append(in.Inputs, frontend.Tensor{Name: t.Name, Type: t.Type, Shape: append([]int64{1}, t.Shape...), Data: item[:n]})
		item = item[n:]
	}
	return in
}
