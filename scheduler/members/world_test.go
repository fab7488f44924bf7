package members

import (
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// world is a cluster and what carries its effects out: an engine's, a server's and a
// frontend's view of it.
type world struct {
	t      fataler
	c      *Cluster
	now    mono.Time
	conns  Conn
	docs   map[catalog.Digest][]catalog.ModelSpec
	silent bool // backends that are asked for their models do not answer

	types     map[int]string
	names     map[int]string
	ended     map[int]mono.Time
	told      func(*Effect) // of what backends and the control plane hear
	every     func(*Effect) // after each effect; nil: nothing
	models    map[wire.ModelID]served
	gone      map[wire.ModelID]leaver
	gpus      map[[2]int]Conn // pool, GPU
	admitted  map[Conn]*catalog.BackendInfo
	frontends map[wire.FrontendID]Conn
	refused   map[Conn]error
	wanted    []Effect
	notes     []string
}

// fataler is a test, or one history of a random one.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// served is a model as an engine has it.
type served struct {
	pool int
	spec *catalog.ModelSpec
}

// leaver is a model that is gone.
type leaver struct {
	at  mono.Time
	key string
}

func limits() Limits { return Limits{Frontends: 4, Backends: 6, Pools: 3, Models: 64, GPUs: 16} }

func newWorld(t fataler, l Limits) *world {
	w := &world{t: t, c: New(l), now: mono.Time(mono.Second), docs: map[catalog.Digest][]catalog.ModelSpec{}, types: map[int]string{}, names: map[int]string{}, ended: map[int]mono.Time{}, models: map[wire.ModelID]served{},
		gone: map[wire.ModelID]leaver{}, gpus: map[[2]int]Conn{}, admitted: map[Conn]*catalog.BackendInfo{}, frontends: map[wire.FrontendID]Conn{}, refused: map[Conn]error{}}
	w.told = func(*Effect) {}
	return w
}

// emptyPool looks that nothing is left in a pool that ends, or goes over.
func (w *world) emptyPool(pool int) {
	w.t.Helper()
	for id, m := range w.models {
		if m.pool == pool {
			w.t.Fatalf("pool %d ends, or begins, and has model %d", pool, id)
		}
	}
	for at := range w.gpus {
		if at[0] == pool {
			w.t.Fatalf("pool %d ends, or begins, and has GPU %d", pool, at[1])
		}
	}
}

// carryOut does what the server would, and finds what it could not do.
func (w *world) carryOut(out Effects) {
	w.t.Helper()
	for i := range out {
		e := &out[i]
		switch e.Kind {
		case Refuse:
			w.refused[e.Conn] = e.Err
		case Replace:
			w.forget(e.Conn)
		case Want:
			w.wanted = append(w.wanted, *e)
		case AddPool:
			if left, ok := w.ended[e.Pool]; ok && w.now.Sub(left) <= poolRest {
				w.t.Fatalf("the index %d of a sub-cluster is given again after %v", e.Pool, w.now.Sub(left))
			}
			delete(w.ended, e.Pool)
			w.emptyPool(e.Pool)
			w.types[e.Pool], w.names[e.Pool] = e.Type, e.SubCluster
		case AddModel, SetModel, MoveModel, RemoveModel:
			w.changeModel(e)
		case RemovePool:
			w.emptyPool(e.Pool)
			delete(w.types, e.Pool)
			w.ended[e.Pool] = w.now
		case Keep, Bind, Answer:
			w.told(e)
		case AdmitBackend:
			w.admitted[e.Conn] = w.c.backend(e.Conn).info
		case AddGPU:
			if w.admitted[e.Conn] == nil || w.gpus[[2]int{e.Pool, int(e.GPU)}] != 0 {
				w.t.Fatalf("GPU %d of pool %d goes to connection %d: of %d now", e.GPU, e.Pool, e.Conn, w.gpus[[2]int{e.Pool, int(e.GPU)}])
			}
			w.gpus[[2]int{e.Pool, int(e.GPU)}] = e.Conn
		case RetireGPU, RemoveGPU:
			if w.gpus[[2]int{e.Pool, int(e.GPU)}] == 0 {
				w.t.Fatalf("GPU %d of pool %d is not there", e.GPU, e.Pool)
			}
			if e.Kind == RemoveGPU {
				delete(w.gpus, [2]int{e.Pool, int(e.GPU)})
			}
		case AdmitFrontend:
			if w.frontends[e.Frontend] != 0 {
				w.t.Fatalf("frontend id %d is given twice", e.Frontend)
			}
			w.frontends[e.Frontend] = e.Conn
		case RemoveFrontend:
			delete(w.frontends, e.Frontend)
		case Note:
			w.notes = append(w.notes, e.Text)
		}
		if w.every != nil {
			w.every(e)
		}
	}
	for len(w.wanted) > 0 && !w.silent {
		e := w.wanted[0]
		w.wanted = w.wanted[1:]
		var next Effects
		w.c.Models(w.now, e.Conn, e.Digest, w.docs[e.Digest], nil, &next)
		w.carryOut(next)
	}
}

// changeModel does what an engine would.
func (w *world) changeModel(e *Effect) {
	w.t.Helper()
	switch e.Kind {
	case AddModel:
		if _, there := w.models[e.Model]; there {
			w.t.Fatalf("model id %d is given twice", e.Model)
		}
		if left, ok := w.gone[e.Model]; ok && w.now.Sub(left.at) <= rest && left.key != e.Spec.Key() {
			w.t.Fatalf("model id %d is given again after %v", e.Model, w.now.Sub(left.at))
		}
		w.models[e.Model] = served{e.Pool, e.Spec}
	case SetModel, RemoveModel:
		if m, there := w.models[e.Model]; !there || m.pool != e.Pool {
			w.t.Fatalf("model %d is not in pool %d", e.Model, e.Pool)
		}
		if e.Kind == SetModel {
			w.models[e.Model] = served{e.Pool, e.Spec}
		} else {
			w.gone[e.Model] = leaver{w.now, w.models[e.Model].spec.Key()}
			delete(w.models, e.Model)
		}
	case MoveModel:
		if m, there := w.models[e.Model]; !there || m.pool != e.From || e.From == e.Pool {
			w.t.Fatalf("model %d moves from %d to %d: it is %+v", e.Model, e.From, e.Pool, m)
		}
		w.models[e.Model] = served{e.Pool, e.Spec}
	}
}

func (w *world) forget(conn Conn) { delete(w.admitted, conn) }

// info is a backend's introduction; its lists can be asked for from then on.
func (w *world) info(name string, instance uint64, configured int64, pools ...poolOf) *catalog.BackendInfo {
	info := &catalog.BackendInfo{Name: name, Instance: instance, Configured: configured}
	for _, p := range pools {
		_, d, err := catalog.EncodeModels(p.models)
		if err != nil {
			w.t.Fatal(err)
		}
		w.docs[d] = p.models
		info.Pools = append(info.Pools, catalog.Pool{DeviceType: p.deviceType, Devices: p.devices, Models: d})
	}
	return info
}

// poolOf is what a backend has of a type.
type poolOf struct {
	deviceType string
	devices    int
	models     []catalog.ModelSpec
}

func (w *world) join(info *catalog.BackendInfo) Conn {
	w.t.Helper()
	w.conns++
	conn := w.conns
	var out Effects
	w.c.JoinBackend(w.now, conn, info, &out)
	w.carryOut(out)
	return conn
}

func (w *world) frontend(info catalog.FrontendInfo, seen string) (Conn, error) {
	w.t.Helper()
	w.conns++
	conn := w.conns
	var out Effects
	w.c.JoinFrontend(w.now, conn, &info, seen, &out)
	w.carryOut(out)
	return conn, w.refused[conn]
}

func (w *world) leave(conn Conn) {
	w.t.Helper()
	var out Effects
	w.c.Leave(w.now, conn, &out)
	w.forget(conn)
	w.carryOut(out)
}

func (w *world) must(conn Conn) Conn {
	w.t.Helper()
	if w.admitted[conn] == nil {
		w.t.Fatalf("not admitted: %v", w.refused[conn])
	}
	return conn
}

func (w *world) mustNot(conn Conn, words ...string) {
	w.t.Helper()
	err := w.refused[conn]
	for _, want := range words {
		if err == nil || !strings.Contains(err.Error(), want) {
			w.t.Fatalf("refused with %v, want %q in it", err, want)
		}
	}
}

// model finds what an engine has under a key.
func (w *world) model(key string) *catalog.ModelSpec {
	for _, m := range w.models {
		if m.spec.Key() == key {
			return m.spec
		}
	}
	return nil
}

func spec(name string, change ...func(*catalog.ModelSpec)) catalog.ModelSpec {
	m := catalog.ModelSpec{Name: name, Version: "1", Platform: "emulated", SLO: 50 * mono.Millisecond, MaxBatch: 16,
		Inputs:  []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{4}}},
		Profile: catalog.Profile{Alpha: mono.Millisecond, Beta: 4 * mono.Millisecond}}
	for _, f := range change {
		f(&m)
	}
	return m
}

func on(deviceType string, devices int, models ...catalog.ModelSpec) poolOf {
	return poolOf{deviceType, devices, models}
}

func slo(d mono.Dur) func(*catalog.ModelSpec) { return func(m *catalog.ModelSpec) { m.SLO = d } }
func most(n int) func(*catalog.ModelSpec)     { return func(m *catalog.ModelSpec) { m.MaxBatch = n } }
func shape(n int64) func(*catalog.ModelSpec) {
	return func(m *catalog.ModelSpec) {
		m.Inputs = []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{n}}}
	}
}

func measured(table []mono.Dur) func(*catalog.ModelSpec) {
	return func(m *catalog.ModelSpec) { m.Profile.Table = table }
}

func profiled(alpha, beta mono.Dur) func(*catalog.ModelSpec) {
	return func(m *catalog.ModelSpec) { m.Profile = catalog.Profile{Alpha: alpha, Beta: beta} }
}
