package members

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// history is a world that random members come to and leave, beside a reference that is
// reckoned anew from who is there.
type history struct {
	*world
	r     *rapid.T
	clock int64 // of configurations
	procs []*catalog.BackendInfo

	backends []*member // in the order in which they came
	fronts   map[Conn]catalog.FrontendInfo
	settings map[[2]string]newest // by device type and key
	follow   [2]*follower
}

// member is a backend that is there.
type member struct {
	conn  Conn
	info  *catalog.BackendInfo
	lists [][]catalog.ModelSpec
	out   map[[2]int][2]bool // pool and device: out by its backend's word, by suspicion
}

// newest is the reference's idea of whose settings hold on a pool.
type newest struct {
	at     int64
	digest catalog.Digest
}

// follower is a frontend's catalogue, by its changes alone.
type follower struct {
	serial uint64
	most   int // models of a part
	models map[wire.ModelID]catalog.Served
	gpus   map[string]int
}

// TestHistories: whatever comes, leaves, is configured anew, is started again or fails, in
// whatever order, catalogue, ids, pools and routes agree, and nobody is refused who should
// not be.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := limits()
		h := &history{world: newWorld(r, l), r: r, fronts: map[Conn]catalog.FrontendInfo{}, settings: map[[2]string]newest{}}
		for i, most := range [...]int{1 << 20, 1} {
			h.follow[i] = &follower{most: most, models: map[wire.ModelID]catalog.Served{}, gpus: map[string]int{}}
		}
		for range rapid.IntRange(1, 30).Draw(r, "events") {
			h.event()
			h.check()
		}
	})
}

func (h *history) event() {
	switch rapid.IntRange(0, 10).Draw(h.r, "event") {
	case 0, 1, 2:
		h.start()
	case 3, 4: // a process dials again, perhaps before its old link has ended
		if len(h.procs) > 0 {
			h.joins(h.procs[rapid.IntRange(0, len(h.procs)-1).Draw(h.r, "process")])
		}
	case 5, 6:
		if len(h.backends) > 0 {
			h.leaves(h.backends[rapid.IntRange(0, len(h.backends)-1).Draw(h.r, "leaves")].conn)
		}
	case 7:
		if len(h.backends) > 0 {
			var out Effects
			h.c.Retire(h.backends[0].conn, &out)
			h.carryOut(out)
		}
	case 8:
		h.frontendEvent()
	case 9:
		h.now = h.now.Add(rapid.SampledFrom([]mono.Dur{mono.Second, rest + 1, reserved + 1}).Draw(h.r, "passes"))
		h.follows(h.follow[1]) // the slow one
	case 10:
		if len(h.backends) > 0 {
			h.service(h.backends[rapid.IntRange(0, len(h.backends)-1).Draw(h.r, "whose device")])
		}
	}
}

// service takes a device out of service or back, or says again what was said of it.
func (h *history) service(m *member) {
	pool := rapid.IntRange(-1, len(m.info.Pools)).Draw(h.r, "pool")
	device := rapid.IntRange(-1, 3).Draw(h.r, "device")
	works, suspicion := rapid.Bool().Draw(h.r, "works"), rapid.Bool().Draw(h.r, "the scheduler's")
	var out Effects
	var err error
	if suspicion {
		err = h.c.Suspect(m.conn, pool, device, !works, "it is silent", &out)
	} else {
		err = h.c.Service(m.conn, pool, device, works, "it is hot", &out)
	}
	h.carryOut(out)
	there := pool >= 0 && pool < len(m.info.Pools) && device >= 0 && device < m.info.Pools[pool].Devices
	if (err == nil) != there {
		h.r.Fatalf("device %d of pool %d of %+v: %v", device, pool, m.info, err)
	}
	if !there {
		return
	}
	reasons := m.out[[2]int{pool, device}]
	reasons[map[bool]int{false: 0, true: 1}[suspicion]] = !works
	reasons[1] = reasons[1] && (suspicion || !works)
	if m.out[[2]int{pool, device}] = reasons; reasons == [2]bool{} {
		delete(m.out, [2]int{pool, device})
	}
}

// start draws a process with a configuration of its own.
func (h *history) start() {
	h.clock++
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(h.r, "name")
	var pools []poolOf
	types := rapid.SampledFrom([][]string{{"x"}, {"x"}, {"y"}, {"z"}, {"w"}, {"x", "y"}}).Draw(h.r, "types")
	for _, deviceType := range types {
		names := rapid.SampledFrom([][]string{{"m"}, {"m"}, {"m", "n"}, {"n"}, {"o", "p"}}).Draw(h.r, "models")
		var models []catalog.ModelSpec
		for _, n := range names {
			models = append(models, spec(n,
				slo(rapid.SampledFrom([]mono.Dur{50 * mono.Millisecond, 50 * mono.Millisecond, 70 * mono.Millisecond}).Draw(h.r, "slo")),
				most(rapid.SampledFrom([]int{16, 16, 8}).Draw(h.r, "max_batch")),
				profiled(rapid.SampledFrom([]mono.Dur{mono.Millisecond, 2 * mono.Millisecond}).Draw(h.r, "alpha"), rapid.SampledFrom([]mono.Dur{4 * mono.Millisecond, mono.Millisecond}).Draw(h.r, "beta")),
				shape(rapid.SampledFrom([]int64{4, 4, 4, 4, 5}).Draw(h.r, "shape")),
				measured(rapid.SampledFrom([][]mono.Dur{nil, nil, {5e6, 5e6, 5e6, 9e6, 9e6, 9e6, 9e6, 11e6}, {6e6, 7e6, 7e6}}).Draw(h.r, "table"))))
		}
		pools = append(pools, on(deviceType, rapid.IntRange(1, 3).Draw(h.r, "devices"), models...))
	}
	info := h.info(name, uint64(1000+h.clock), h.clock/2, pools...) // two may be of one instant
	h.procs = append(h.procs, info)
	h.joins(info)
}

func (h *history) joins(info *catalog.BackendInfo) {
	for _, m := range h.backends {
		if m.info.Instance == info.Instance {
			h.departs(m.conn) // its own old link makes way first
			break
		}
	}
	m := &member{info: info, out: map[[2]int][2]bool{}}
	for _, p := range info.Pools {
		m.lists = append(m.lists, h.docs[p.Models])
	}
	why := h.reason(m)
	m.conn = h.join(info)
	if err := h.refused[m.conn]; (err == nil) != (why == "") {
		h.r.Fatalf("backend %+v is refused with %v; the reference says %q", info, err, why)
	} else if err != nil {
		return
	}
	h.backends = append(h.backends, m)
	for i, p := range info.Pools {
		for k := range m.lists[i] {
			at := [2]string{p.DeviceType, m.lists[i][k].Key()}
			n, ok := h.settings[at]
			if !ok || !h.is(p.DeviceType, at[1], n.digest) || info.Configured > n.at || info.Configured == n.at && p.Models > n.digest {
				h.settings[at] = newest{info.Configured, info.Pools[i].Models}
			}
		}
	}
}

// is tells whether a model is served by a pool as a list has it.
func (h *history) is(deviceType, key string, list catalog.Digest) bool {
	for _, m := range h.models {
		if h.types[m.pool] == deviceType && m.spec.Key() == key {
			return slices.ContainsFunc(h.docs[list], func(s catalog.ModelSpec) bool {
				return s.Key() == key && s.Inputs[0].Shape[0] == m.spec.Inputs[0].Shape[0]
			})
		}
	}
	return false
}

// on are the members with a pool of a type, and its models there.
func (h *history) on(deviceType string) (lists [][]catalog.ModelSpec) {
	for _, m := range h.backends {
		for i, p := range m.info.Pools {
			if p.DeviceType == deviceType {
				lists = append(lists, m.lists[i])
			}
		}
	}
	return lists
}

// reason is why the reference would not have m; "": it would.
func (h *history) reason(m *member) string {
	types := map[string]bool{}
	for _, other := range h.backends {
		if other.info.Name == m.info.Name {
			return "name"
		}
		for i, p := range other.info.Pools {
			types[p.DeviceType] = true
			for k, q := range m.info.Pools {
				for _, a := range other.lists[i] {
					at := slices.IndexFunc(m.lists[k], func(b catalog.ModelSpec) bool { return a.Key() == b.Key() })
					switch same := p.DeviceType == q.DeviceType; {
					case same && at < 0, same && len(m.lists[k]) != len(other.lists[i]):
						return "set"
					case same && a.Inputs[0].Shape[0] != m.lists[k][at].Inputs[0].Shape[0]:
						return "shape"
					case !same && at >= 0:
						return "pool"
					}
				}
			}
		}
	}
	if len(m.lists) > 1 {
		for _, a := range m.lists[0] {
			if slices.ContainsFunc(m.lists[1], func(b catalog.ModelSpec) bool { return a.Key() == b.Key() }) {
				return "twice"
			}
		}
	}
	for _, p := range m.info.Pools {
		types[p.DeviceType] = true
	}
	if len(types) > h.c.limits.Pools {
		return "types"
	}
	if len(h.backends) >= h.c.limits.Backends {
		return "backends"
	}
	return ""
}

func (h *history) departs(conn Conn) {
	h.backends = slices.DeleteFunc(h.backends, func(m *member) bool { return m.conn == conn })
}

func (h *history) leaves(conn Conn) {
	h.departs(conn)
	h.leave(conn)
}

func (h *history) frontendEvent() {
	if len(h.fronts) > 0 && rapid.Bool().Draw(h.r, "a frontend leaves") {
		var conn Conn = math.MaxUint64
		for c := range h.fronts {
			conn = min(conn, c)
		}
		delete(h.fronts, conn)
		h.leave(conn)
		return
	}
	i := rapid.IntRange(1, 5).Draw(h.r, "frontend")
	seen := fmt.Sprint("10.0.0.", rapid.IntRange(1, 3).Draw(h.r, "host"))
	info := catalog.FrontendInfo{Name: fmt.Sprint("f", i), Instance: uint64(i), Address: "tcp:[::]:4000"}
	want := "tcp:" + seen + ":4000"
	ok := true
	var old Conn
	for c, f := range h.fronts {
		if f.Instance == info.Instance {
			old = c
		} else if f.Address == want {
			ok = false
		}
	}
	delete(h.fronts, old)
	ok = ok && len(h.fronts) < h.c.limits.Frontends
	conn, err := h.frontend(info, seen)
	if (err == nil) != ok {
		h.r.Fatalf("frontend %+v at %s: %v; want admitted %v", info, seen, err, ok)
	}
	if info.Address = want; ok {
		h.fronts[conn] = info
	}
}

// follows applies the catalogue's changes, part by part.
func (h *history) follows(f *follower) {
	for more := true; more; {
		ch := h.c.Changes(f.serial, f.most)
		if ch.Since != f.serial {
			h.r.Fatalf("changes since %d, asked for %d", ch.Since, f.serial)
		}
		for _, id := range ch.Gone {
			delete(f.models, id)
		}
		for _, m := range ch.Models {
			f.models[m.ID] = m
		}
		for _, p := range ch.Pools {
			f.gpus[p.DeviceType] = p.GPUs
		}
		f.serial, more = ch.Serial, ch.More
	}
}

func (h *history) check() {
	gpus, models := map[string]int{}, 0
	for _, m := range h.backends {
		if h.admitted[m.conn] == nil {
			h.r.Fatalf("backend %s is not admitted", m.info.Name)
		}
		bound := h.c.Bound(m.conn)
		for i, p := range m.info.Pools {
			gpus[p.DeviceType] += p.Devices
			for at := range m.out {
				if at[0] == i {
					gpus[p.DeviceType]--
				}
			}
			for k := range m.lists[i] {
				h.checkModel(p.DeviceType, bound[i].IDs[k], m.lists[i][k].Key())
			}
		}
	}
	if len(h.admitted) != len(h.backends) {
		h.r.Fatalf("%d are admitted, want %d", len(h.admitted), len(h.backends))
	}
	held := map[string]int{}
	for at := range h.gpus {
		held[h.types[at[0]]]++
	}
	for _, p := range h.c.pools {
		if held[p.deviceType] != gpus[p.deviceType] || p.live != gpus[p.deviceType] {
			h.r.Fatalf("pool %s has %d GPUs, the engine %d, the backends %d", p.deviceType, p.live, held[p.deviceType], gpus[p.deviceType])
		}
		models += p.routed
	}
	if models != len(h.models) || models != len(h.c.models.byKey) {
		h.r.Fatalf("%d models in the pools, %d in the engines, %d by key", models, len(h.models), len(h.c.models.byKey))
	}
	for at, n := range h.settings { // a model that is gone, or another now, took its settings with it
		if !h.is(at[0], at[1], n.digest) {
			delete(h.settings, at)
		}
	}
	h.checkLists()
	h.follows(h.follow[0])
	h.checkFollower(h.follow[0], gpus)
	lag := *h.follow[1]
	lag.models, lag.gpus = map[wire.ModelID]catalog.Served{}, map[string]int{}
	for k, v := range h.follow[1].models {
		lag.models[k] = v
	}
	for k, v := range h.follow[1].gpus {
		lag.gpus[k] = v
	}
	h.follows(&lag)
	h.checkFollower(&lag, gpus)
	if len(h.frontends) != len(h.fronts) {
		h.r.Fatalf("%d frontends, want %d", len(h.frontends), len(h.fronts))
	}
	for id, conn := range h.frontends {
		if f := h.c.Frontend(id); f == nil || f.Conn != conn || f.Address != h.fronts[conn].Address {
			h.r.Fatalf("frontend %d is %+v, want %+v", id, f, h.fronts[conn])
		}
	}
}

// checkModel compares what an engine has with what all of the pool's backends can run.
func (h *history) checkModel(deviceType string, id wire.ModelID, key string) {
	m, ok := h.models[id]
	if !ok || m.spec.Key() != key || h.types[m.pool] != deviceType {
		h.r.Fatalf("id %d of %s on %s is %+v", id, key, deviceType, m)
	}
	batch, lists := math.MaxInt, h.on(deviceType)
	at := func(list []catalog.ModelSpec) *catalog.ModelSpec {
		return &list[slices.IndexFunc(list, func(m catalog.ModelSpec) bool { return m.Key() == key })]
	}
	for _, l := range lists {
		batch = min(batch, at(l).MaxBatch)
		if n := len(at(l).Profile.Table); n > 0 {
			batch = min(batch, n)
		}
	}
	if m.spec.MaxBatch != batch {
		h.r.Fatalf("%s on %s: max_batch %d, the smallest is %d", key, deviceType, m.spec.MaxBatch, batch)
	}
	if want := at(h.docs[h.settings[[2]string{deviceType, key}].digest]).SLO; m.spec.SLO != want {
		h.r.Fatalf("%s on %s: SLO %v, the newest's is %v", key, deviceType, m.spec.SLO, want)
	}
	have, err := profile.FromDoc(m.spec.Profile, batch)
	if err != nil {
		h.r.Fatal(err)
	}
	for b := 1; b <= batch; b++ {
		slowest := mono.Dur(0)
		for _, l := range lists {
			p, err := profile.FromDoc(at(l).Profile, at(l).MaxBatch)
			if err != nil {
				h.r.Fatal(err)
			}
			slowest = max(slowest, p.Latency(b))
		}
		if got := have.Latency(b); got != slowest {
			h.r.Fatalf("%s on %s: %v for %d, the slowest takes %v", key, deviceType, got, b, slowest)
		}
	}
}

// checkLists: what nobody has any more is forgotten.
func (h *history) checkLists() {
	for _, l := range h.c.known {
		users := 0
		for _, m := range h.backends {
			for _, p := range m.info.Pools {
				if p.Models == l.digest {
					users++
				}
			}
		}
		if l.users != users || users == 0 {
			h.r.Fatalf("a list has %d users, want %d", l.users, users)
		}
	}
}

func (h *history) checkFollower(f *follower, gpus map[string]int) {
	if len(f.models) != len(h.models) {
		h.r.Fatalf("a follower knows %d models, there are %d", len(f.models), len(h.models))
	}
	for id, m := range h.models {
		got := f.models[id]
		if got.Spec.Key() != m.spec.Key() || got.DeviceType != h.types[m.pool] || got.Spec.SLO != m.spec.SLO || got.Spec.MaxBatch != m.spec.MaxBatch {
			h.r.Fatalf("a follower has %+v for %d, the engine %+v", got, id, m)
		}
		if f.gpus[got.DeviceType] != gpus[got.DeviceType] {
			h.r.Fatalf("a follower counts %d GPUs of %s, there are %d", f.gpus[got.DeviceType], got.DeviceType, gpus[got.DeviceType])
		}
	}
}
