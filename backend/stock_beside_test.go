//go:build cgo

package backend

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/examples/onnxfile"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// launches counts what a device is given beside its executor's orders.
type launches struct {
	executor.Device
	n atomic.Int64
}

func (l *launches) Launch(b *executor.Batch) {
	l.n.Add(1)
	l.Device.Launch(b)
}

// graphOf is a model file.
func graphOf(t *testing.T, build func(g *onnxfile.Graph)) string {
	t.Helper()
	g := onnxfile.NewGraph("g")
	build(g)
	var text bytes.Buffer
	if _, err := (&onnxfile.Model{Producer: "test", Graph: g}).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// A model without a profile is measured beside the device that serves others: the device is
// given none of its runs, and orders for others are carried out meanwhile; then it serves, with
// the session that was measured. One that is served is measured again likewise.
func TestModelsAreMeasuredBesideTheDevice(t *testing.T) {
	s := onCPU(t)
	defer s.end()
	counted := &launches{Device: s.b.pools[0].devices[0]}
	s.b.pools[0].devices[0] = counted
	s.admitted(100)
	fast := onnxSource(t, "fast", reshaperConfig, reshaper(0))
	fast.Profile = &catalog.Profile{Alpha: mono.Millisecond, Beta: mono.Millisecond}
	s.keep(catalog.Keep{Device: 0, In: "east", Load: []catalog.Source{fast}})
	s.until("fast/1", catalog.StateReady, 0)
	s.bindTo(map[string]wire.ModelID{"fast/1": 1})
	slow := onnxSource(t, "slow", reshaperConfig, graphOf(t, func(g *onnxfile.Graph) {
		g.Input("x", onnxfile.Float32, 4)
		g.Output("y", onnxfile.Float32, 4)
		g.Constant("W", onnxfile.Float32, onnxfile.Numbers(make([]float32, 4*4096)...), 4, 4096)
		g.Constant("V", onnxfile.Float32, onnxfile.Numbers(make([]float32, 4*4096)...), 4096, 4)
		g.Node("MatMul", []string{"x", "W"}, "z")
		g.Node("MatMul", []string{"z", "V"}, "y")
	}))
	s.keep(catalog.Keep{Device: 0, In: "east", Load: []catalog.Source{slow}})
	id := wire.BatchID(0)
	run := func(model wire.ModelID) {
		now := mono.Now()
		m := wire.Batch{Epoch: 100, Batch: id, Model: model, Exec: now, Until: now, Latest: mono.Never, Items: []wire.BatchItem{
			{Request: wire.RequestID(id), Frontend: 3, Deadline: now.Add(20 * mono.Second), Input: wire.SlabRef{Length: 16}}}}
		_ = s.control().Send(m.Append(nil))
		id++
		s.wait("a report", func() bool { return len(s.dones) == int(id) })
		s.mu.Lock()
		defer s.mu.Unlock()
		if d := s.dones[id-1]; d.Reason != wire.ReasonNone || d.Ran != 1 {
			t.Errorf("order %d: %+v", id-1, d)
		}
	}
	ready := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.last("slow/1").State == catalog.StateReady
	}
	for run(1); !ready(); {
		run(1)
	}
	s.keep(catalog.Keep{Device: 0, In: "east", Measure: []string{"fast/1"}})
	s.wait("a profile of its own", func() bool { sp := s.last("fast/1").Spec; return sp != nil && len(sp.Profile.Table) == 2 })
	s.bindTo(map[string]wire.ModelID{"fast/1": 1, "slow/1": 2})
	run(1)
	run(2)
	if n := counted.n.Load(); n != 0 {
		t.Errorf("the device that serves was given %d runs that measured", n)
	}
}

// integers is a model of int64 numbers: y is made of a and k by nodes.
func integers(t *testing.T, build func(g *onnxfile.Graph)) string {
	t.Helper()
	return graphOf(t, func(g *onnxfile.Graph) {
		g.Input("a", onnxfile.Int64, 2)
		g.Input("k", onnxfile.Int64, 2)
		g.Output("y", onnxfile.Int64, 2)
		build(g)
	})
}

const integersConfig = "platform: onnxruntime\nslo: 50ms\nmax_batch: 2\n" +
	"inputs: [{name: a, type: INT64, shape: [2]}, {name: k, type: INT64, shape: [2]}]\noutputs: [{name: y, type: INT64, shape: [2]}]\n"

// refusers are models that refuse zeros: a division, a remainder, a look-up from 1000 on, and one
// from 70000 on, which no guess finds.
func refusers(t *testing.T) map[string]string {
	lookUp := func(from int64) string {
		return integers(t, func(g *onnxfile.Graph) {
			table := make([]int64, 600)
			g.Integers("W", table, len(table))
			g.Integers("from", []int64{from})
			g.Node("Sub", []string{"k", "from"}, "i")
			g.Node("Gather", []string{"W", "i"}, "w")
			g.Node("Add", []string{"a", "w"}, "y")
		})
	}
	return map[string]string{
		"div":    integers(t, func(g *onnxfile.Graph) { g.Node("Div", []string{"a", "k"}, "y") }),
		"mod":    integers(t, func(g *onnxfile.Graph) { g.Node("Mod", []string{"a", "k"}, "y") }),
		"lookup": lookUp(1000), "far": lookUp(70000)}
}

// Models that refuse zeros serve, those that come later as those that are there at the start:
// without a setting where small numbers do, with warmup of their config.yaml where not. One that
// has a profile serves whatever its warm-up runs say, at both times.
func TestModelsThatRefuseZeros(t *testing.T) {
	ids := string(bytes.Repeat([]byte{0x71, 0x11, 1, 0, 0, 0, 0, 0}, 4)) // 70001, two items
	files := refusers(t)
	for name, c := range map[string]struct {
		model, more, file string
		profile           bool
		fails, logs       string
	}{
		"a division":             {model: "div", logs: `"on":"inputs of 1"`},
		"a remainder":            {model: "mod", logs: `"on":"inputs of 1"`},
		"a look-up":              {model: "lookup", logs: `"on":"inputs of 1000"`},
		"far":                    {model: "far", fails: "warm-up run on zeros failed, and on inputs of 1, 10, 100, 1000 and 10000: set warmup in config.yaml"},
		"far, random":            {model: "far", more: "warmup: {inputs: {k: {random: [70000, 70500]}}}\n", logs: "k random in 70000 to 70500"},
		"far, of a file":         {model: "far", more: "warmup: {inputs: {k: {file: warmup/ids.bin}, a: {zeros: true}}}\n", file: ids, logs: "k of the file warmup/ids.bin"},
		"far, with others":       {model: "far", more: "warmup: {inputs: {k: {random: [1, 9]}}}\n", fails: "k random in 1 to 9) failed: correct warmup in config.yaml"},
		"far, with a profile":    {model: "far", profile: true},
		"with a wrong setting":   {model: "div", more: "warmup: {inputs: {z: {zeros: true}}}\n", fails: `config.yaml: warmup.inputs: "z" is no input of the model`},
		"with a file that lacks": {model: "div", more: "warmup: {inputs: {k: {file: warmup/k.bin}}}\n", fails: "config.yaml: warmup.inputs.k: file warmup/k.bin: there is no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			src := onnxSource(t, "m", integersConfig+c.more, files[c.model])
			dir := strings.TrimPrefix(src.URL, "file://")
			if c.file != "" {
				if err := os.MkdirAll(filepath.Join(dir, "warmup"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "warmup", "ids.bin"), []byte(c.file), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			src.Digest, src.Bytes = "", 0
			if c.profile {
				src.Profile = &catalog.Profile{Alpha: mono.Millisecond, Beta: mono.Millisecond}
			}
			comesLater(t, &src, c.fails, c.logs)
			isThereAtTheStart(t, dir, c.profile, c.fails, c.logs)
		})
	}
}

// comesLater has a model come to a backend that serves, and holds what is told of it against what
// is wanted.
func comesLater(t *testing.T, src *catalog.Source, fails, logs string) {
	t.Helper()
	s := onCPU(t)
	defer s.end()
	s.admitted(100)
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{*src}})
	if fails != "" {
		if got := s.until("m/1", catalog.StateFailed); !strings.Contains(got.Error, fails) {
			t.Errorf("later: %q is missing in %q", fails, got.Error)
		}
		return
	}
	s.until("m/1", catalog.StateReady, 0)
	if len(s.log.about(logs)) == 0 && logs != "" {
		t.Errorf("later: the log has no %q", logs)
	}
}

// isThereAtTheStart has a backend begin with it.
func isThereAtTheStart(t *testing.T, dir string, profiled bool, fails, logs string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, "profiles")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	b := &Backend{cfg: Config{ONNXRuntime: needONNX(t), Profiling: profiler.Options{Warmup: 1, Rounds: 3}}, log: zerolog.New(&log)}
	cfg := PoolConfig{DeviceType: "cpu", Kind: KindCPU, Devices: 1}
	m, err := repository.Read(dir, "m", "1")
	if err == nil && profiled {
		l, failed := profile.Linear(mono.Millisecond, mono.Millisecond, 2)
		if failed == nil {
			_, failed = profiler.Write(ProfileKey(&m, cfg, ""), &profiler.Result{Profile: l})
		}
		if failed != nil {
			t.Fatal(failed)
		}
	}
	var p *pool
	if err == nil {
		p, err = b.buildPool(t.Context(), cfg, []repository.Model{m})
	}
	if fails != "" {
		if err == nil || !strings.Contains(err.Error(), fails) {
			t.Errorf("at the start: %q is missing in %v", fails, err)
		}
		return
	}
	if err != nil || len(p.specs) != 1 {
		t.Fatalf("at the start: %v", err)
	}
	p.devices[0].Close()
	if text := log.String(); !strings.Contains(text, logs) {
		t.Errorf("at the start: %q is missing in\n%s", logs, text)
	}
}
