package members

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A list is asked for once, however many backends have it, and of another where the one
// that was asked leaves.
func TestAListIsAskedForOnce(t *testing.T) {
	w := newWorld(t, limits())
	w.silent = true
	var conns []Conn
	for i := range 3 {
		conns = append(conns, w.join(w.info(fmt.Sprint("b", i), uint64(i+1), 1, on("gpu", 1, spec("m")))))
	}
	if len(w.wanted) != 1 || w.wanted[0].Conn != conns[0] || len(w.admitted) != 0 {
		t.Fatalf("%d questions, %d admitted", len(w.wanted), len(w.admitted))
	}
	w.leave(conns[0])
	if len(w.wanted) != 2 || w.wanted[1].Conn != conns[1] {
		t.Fatalf("questions %+v", w.wanted)
	}
	w.wanted, w.silent = w.wanted[1:], false
	w.carryOut(nil)
	w.must(conns[1])
	w.must(conns[2])
	if w.must(w.join(w.info("late", 9, 1, on("gpu", 1, spec("m"))))); len(w.gpus) != 3 {
		t.Errorf("%d GPUs, want 3", len(w.gpus))
	}
}

// A list that is wrong is its senders' fault, and nobody else waits for ever.
func TestABadListIsRefused(t *testing.T) {
	w := newWorld(t, limits())
	bad := w.join(w.info("bad", 1, 1, on("gpu", 1, spec("m", slo(0)))))
	w.mustNot(bad, "SLO")
	text := w.join(w.info("text", 5, 1, on("gpu", 1, spec("m", func(m *catalog.ModelSpec) {
		m.Outputs = []catalog.TensorSpec{{Name: "words", Type: catalog.Bytes, Shape: []int64{1}}}
	}))))
	w.mustNot(text, "words", "BYTES")
	twice := w.join(w.info("twice", 2, 1, on("gpu", 1, spec("m"), spec("m"))))
	w.mustNot(twice, "twice")
	var out Effects
	ok := w.must(w.join(w.info("ok", 3, 1, on("gpu", 1, spec("m")))))
	w.c.Models(w.now, ok, "0123", nil, nil, &out)
	w.carryOut(out)
	w.mustNot(ok, "not asked for")
	if len(w.c.backends) != 0 || len(w.c.byConn) != 0 {
		t.Error("those that were refused are remembered")
	}
}

// What backends of a model may differ in, and what not.
func TestSpecifications(t *testing.T) {
	w := newWorld(t, limits())
	a := w.must(w.join(w.info("a", 1, 1, on("gpu", 2, spec("m")))))
	w.mustNot(w.join(w.info("b", 2, 2, on("gpu", 1, spec("m", shape(5))))), "model m/1", "inputs", "x FP32[5]", "x FP32[4]", "on a", "version")
	w.mustNot(w.join(w.info("b", 3, 2, on("gpu", 1, spec("m", func(m *catalog.ModelSpec) { m.Platform = "onnx" })))), "platform", `"onnx"`)
	w.mustNot(w.join(w.info("b", 4, 2, on("gpu", 1, spec("m"), spec("n")))), "same models as a", "only here: [n/1]")
	w.mustNot(w.join(w.info("b", 5, 2, on("gpu", 1, spec("m")), on("cpu", 1, spec("m")))), "pools gpu and cpu")
	w.mustNot(w.join(w.info("b", 6, 2, on("cpu", 1, spec("m")))), "served on gpu already")
	b := w.must(w.join(w.info("b", 7, 2, on("gpu", 1, spec("m", slo(80*mono.Millisecond), most(4), profiled(2*mono.Millisecond, mono.Millisecond))))))
	m := w.model("m/1")
	if m.SLO != 80*mono.Millisecond || m.MaxBatch != 4 {
		t.Errorf("in force: SLO %v, max_batch %d; want the newest's 80 ms and the smallest, 4", m.SLO, m.MaxBatch)
	}
	if want := []mono.Dur{5 * mono.Millisecond, 6 * mono.Millisecond, 7 * mono.Millisecond, 9 * mono.Millisecond}; fmt.Sprint(m.Profile.Table) != fmt.Sprint(want) {
		t.Errorf("latencies %v, want the slowest of each size %v", m.Profile.Table, want)
	}
	if text := strings.Join(w.notes, "\n"); !strings.Contains(text, "m/1 has SLO 80ms (was 50ms), max_batch 4 (was 16)") || !strings.Contains(text, "m/1 1.67; the slowest count") {
		t.Errorf("the log says %q", text)
	}
	// One with the old configuration that dials again does not take it back.
	w.leave(a)
	w.notes = nil
	if w.must(w.join(w.info("a", 1, 1, on("gpu", 2, spec("m"))))); w.model("m/1").SLO != 80*mono.Millisecond {
		t.Error("an old configuration holds again")
	}
	if text := strings.Join(w.notes, "\n"); !strings.Contains(text, "the configuration of a is older than that of b, which holds: m/1 has SLO 80ms (was 50ms)") {
		t.Errorf("the log says %q of an old configuration", text)
	}
	// And what only b could not do is done again when it has left.
	w.leave(b)
	if m := w.model("m/1"); m.MaxBatch != 16 || m.Profile.Beta != 4*mono.Millisecond || m.SLO != 80*mono.Millisecond {
		t.Errorf("after b: max_batch %d, profile %+v, SLO %v", m.MaxBatch, m.Profile, m.SLO)
	}
}

// Tables may be shorter than max_batch, and of any lengths: what is measured counts.
func TestTables(t *testing.T) {
	table := func(of ...mono.Dur) func(*catalog.ModelSpec) {
		return func(m *catalog.ModelSpec) { m.MaxBatch, m.Profile = 8, catalog.Profile{Table: of} }
	}
	w := newWorld(t, limits())
	w.must(w.join(w.info("a", 1, 1, on("gpu", 1, spec("m", table(5, 6, 7, 8))))))
	if m := w.model("m/1"); m.MaxBatch != 4 {
		t.Errorf("max_batch %d of a table of 4", m.MaxBatch)
	}
	b := w.must(w.join(w.info("b", 2, 2, on("gpu", 1, spec("m", table(4, 7, 7, 9, 9, 9, 9, 9))))))
	if m := w.model("m/1"); m.MaxBatch != 4 || fmt.Sprint(m.Profile.Table) != fmt.Sprint([]mono.Dur{5, 7, 7, 9}) {
		t.Errorf("max_batch %d, latencies %v", m.MaxBatch, m.Profile.Table)
	}
	c := w.must(w.join(w.info("c", 3, 3, on("gpu", 1, spec("m", table(9, 9))))))
	if m := w.model("m/1"); m.MaxBatch != 2 || fmt.Sprint(m.Profile.Table) != fmt.Sprint([]mono.Dur{9, 9}) {
		t.Errorf("max_batch %d, latencies %v", m.MaxBatch, m.Profile.Table)
	}
	w.leave(b)
	w.leave(c)
	if m := w.model("m/1"); m.MaxBatch != 4 || fmt.Sprint(m.Profile.Table) != fmt.Sprint([]mono.Dur{5, 6, 7, 8}) {
		t.Errorf("max_batch %d, latencies %v", m.MaxBatch, m.Profile.Table)
	}
	w.mustNot(w.join(w.info("d", 4, 4, on("gpu", 1, spec("m", most(1<<60))))), "max_batch")
}

// Who is asked for a list and does not send it holds nobody else up for ever.
func TestWhoDoesNotAnswer(t *testing.T) {
	w := newWorld(t, limits())
	w.silent = true
	mute := w.join(w.info("mute", 1, 1, on("gpu", 1, spec("m"))))
	good := w.join(w.info("good", 2, 1, on("gpu", 1, spec("m"))))
	w.wanted, w.silent = nil, false
	var out Effects
	w.c.Tick(w.now.Add(answerTime), &out)
	if w.carryOut(out); w.refused[mute] != nil {
		t.Error("refused before its time")
	}
	out = nil
	w.now = w.now.Add(answerTime + 1)
	w.c.Tick(w.now, &out)
	w.carryOut(out)
	w.mustNot(mute, "did not come")
	w.must(good)
}

// A process that dials again while its old link still waits is let in on the new one.
func TestDialAnewWhileWaiting(t *testing.T) {
	w := newWorld(t, limits())
	w.silent = true
	info := w.info("b", 1, 1, on("gpu", 1, spec("m")))
	w.join(info)
	again := w.join(info)
	if n := len(w.wanted); n != 2 || w.wanted[1].Conn != again {
		t.Fatalf("questions %+v", w.wanted)
	}
	w.wanted, w.silent = w.wanted[1:], false
	w.carryOut(nil)
	w.must(again)
}

// What a backend brings is not taken for another type that it brings, too.
func TestPoolsOfOneBackend(t *testing.T) {
	l := limits()
	l.Pools, l.Models = 2, 4
	w := newWorld(t, l)
	for i, p := range []poolOf{on("y", 1, spec("y1"), spec("y2")), on("z", 1, spec("z1"))} {
		w.leave(w.must(w.join(w.info("b", uint64(i+1), 1, p))))
		w.now = w.now.Add(mono.Second)
	}
	w.must(w.join(w.info("b", 9, 2, on("x", 1, spec("x1")), on("y", 1, spec("y1"), spec("y2")))))
	if w.types[0] != "y" || w.types[1] != "x" || len(w.c.models.byID) > l.Models {
		t.Errorf("types %v, %d ids", w.types, len(w.c.models.byID))
	}
}

// Labels are of a backend that is there, for others ask it.
func TestLabelsAreOfWhoIsThere(t *testing.T) {
	w := newWorld(t, limits())
	labelled := func(of ...string) func(*catalog.ModelSpec) { return func(m *catalog.ModelSpec) { m.Labels = of } }
	old := spec("m", labelled("cat"))
	_, oldID, _ := catalog.EncodeLabels(old.Labels)
	fresh := spec("m", labelled("dog"))
	_, freshID, _ := catalog.EncodeLabels(fresh.Labels)
	old.LabelsID, fresh.LabelsID = oldID, freshID
	a := w.must(w.join(w.info("a", 1, 1, on("gpu", 1, old))))
	b := w.must(w.join(w.info("b", 2, 2, on("gpu", 1, fresh))))
	if got, ok := w.c.Holder(w.model("m/1").LabelsID); w.model("m/1").LabelsID != freshID || !ok || got != b {
		t.Errorf("labels %s of %d", w.model("m/1").LabelsID, got)
	}
	// One that has come and gone holds for SLOs; labels are of the newest that is left.
	w.leave(w.must(w.join(w.info("c", 3, 9, on("gpu", 1, spec("m"))))))
	if id := w.model("m/1").LabelsID; id != freshID {
		t.Errorf("labels %s when the newest has left", id)
	}
	d := w.must(w.join(w.info("d", 4, 5, on("gpu", 1, old))))
	if id := w.model("m/1").LabelsID; id != oldID {
		t.Errorf("labels %s of a newer backend with a list that is there already", id)
	}
	w.leave(d)
	w.leave(b)
	if got, ok := w.c.Holder(w.model("m/1").LabelsID); w.model("m/1").LabelsID != oldID || !ok || got != a {
		t.Errorf("labels %s of %d, %v", w.model("m/1").LabelsID, got, ok)
	}
}

// Backends that have measured their own latencies have a list each. (What joining and
// leaving takes is logged: go test -run TestListsOfTheirOwn -v.)
func TestListsOfTheirOwn(t *testing.T) {
	const backends, models, sizes = 128, 200, 32
	w := newWorld(t, Limits{Frontends: 4, Backends: backends, Pools: 3, Models: models, GPUs: backends})
	r := rand.New(rand.NewPCG(1, 2))
	var infos []*catalog.BackendInfo
	for b := range backends {
		var specs []catalog.ModelSpec
		for m := range models {
			table := make([]mono.Dur, sizes)
			for i := range table {
				table[i] = mono.Dur(i+4)*mono.Millisecond + mono.Dur(r.IntN(int(mono.Millisecond)))
			}
			specs = append(specs, spec(fmt.Sprint("m", m), most(sizes), measured(table)))
		}
		infos = append(infos, w.info(fmt.Sprint("b", b), uint64(b+1), 1, on("cpu", 1, specs...)))
	}
	begin := time.Now()
	for _, info := range infos {
		w.must(w.join(info))
	}
	joined := time.Now()
	for conn := range Conn(backends) {
		w.leave(conn + 1)
	}
	t.Logf("%d backends of %d models with latencies of their own: joined in %v, left in %v", backends, models, joined.Sub(begin), time.Since(joined))
	if len(w.c.known) > 1 {
		t.Errorf("%d lists are kept", len(w.c.known))
	}
}

// A refusal for want of ids takes no more from models that are away than it must.
func TestModelsThatAreAwayStay(t *testing.T) {
	l := limits()
	l.Models, l.Pools = 6, 4
	w := newWorld(t, l)
	w.leave(w.must(w.join(w.info("a", 1, 1, on("x", 1, spec("x1"), spec("x2"))))))
	w.now = w.now.Add(mono.Second)
	w.leave(w.must(w.join(w.info("b", 2, 1, on("y", 1, spec("y1"), spec("y2"), spec("y3"))))))
	w.mustNot(w.join(w.info("c", 3, 1, on("z", 1, spec("z1"), spec("z2")))), "try again")
	if w.model("x1/1") != nil || w.model("y1/1") == nil {
		t.Error("of two pools that are away the one that has been for longest gives its ids up, and no other")
	}
	w.now = w.now.Add(rest + 1)
	w.must(w.join(w.info("c", 3, 1, on("z", 1, spec("z1"), spec("z2")))))
}

// Ids of frontends stay below twice the limit, however many come and go.
func TestFrontendIDsAreBounded(t *testing.T) {
	w := newWorld(t, limits())
	for i := range 1000 {
		conn, err := w.frontend(catalog.FrontendInfo{Name: "f", Instance: uint64(i + 1), Address: fmt.Sprint("inproc:", i)}, "")
		if err != nil {
			t.Fatal(err)
		}
		w.leave(conn)
	}
	if n := len(w.c.frontends.byID); n > 2*limits().Frontends {
		t.Errorf("%d ids", n)
	}
}

// A name belongs to one living process.
func TestNames(t *testing.T) {
	w := newWorld(t, limits())
	a := w.must(w.join(w.info("a", 1, 1, on("gpu", 2, spec("m")))))
	w.mustNot(w.join(w.info("a", 2, 2, on("gpu", 2, spec("m")))), `"a" is connected already`, "backend.name")
	again := w.must(w.join(w.info("a", 1, 1, on("gpu", 2, spec("m")))))
	if w.admitted[a] != nil || len(w.gpus) != 2 || w.gpus[[2]int{0, 0}] != again {
		t.Errorf("the same process on another link: GPUs %v", w.gpus)
	}
	w.leave(again)
	w.now = w.now.Add(reserved / 2)
	w.must(w.join(w.info("other", 3, 3, on("gpu", 1, spec("m")))))
	w.must(w.join(w.info("a", 4, 4, on("gpu", 2, spec("m")))))
	if w.gpus[[2]int{0, 0}] == 0 || w.gpus[[2]int{0, 1}] == 0 || w.gpus[[2]int{0, 2}] == 0 || len(w.gpus) != 3 {
		t.Errorf("GPU ids %v: a restart has its own again", w.gpus)
	}
}

// A model moves when nobody is left where it was; a type comes when another has gone.
func TestModelsMove(t *testing.T) {
	l := limits()
	l.Pools = 2
	w := newWorld(t, l)
	old := w.must(w.join(w.info("a", 1, 1, on("t4", 1, spec("m")))))
	w.must(w.join(w.info("b", 2, 1, on("cpu", 1, spec("n")))))
	w.mustNot(w.join(w.info("c", 3, 1, on("a100", 1, spec("o")))), "more than 2 device types")
	w.leave(old)
	w.must(w.join(w.info("c", 4, 1, on("a100", 1, spec("m")))))
	if w.types[0] != "a100" || len(w.models) != 2 || w.models[2].spec.Name != "m" {
		t.Errorf("pools %v, models %v", w.types, w.models)
	}
}

// Ids of models do not run out over a scheduler's life.
func TestModelIDsComeBack(t *testing.T) {
	l := limits()
	l.Models = 8
	w := newWorld(t, l)
	for i := range 100 {
		b := w.must(w.join(w.info("b", uint64(i+1), int64(i), on("gpu", 1, spec(fmt.Sprint("a", i)), spec(fmt.Sprint("b", i))))))
		w.leave(b)
		w.now = w.now.Add(rest / 2)
	}
	if len(w.c.models.byID) > l.Models {
		t.Errorf("%d ids", len(w.c.models.byID))
	}
	w.mustNot(w.join(w.info("many", 1000, 1000, on("gpu", 1, nine()...))), "more than 8 models")
}

func nine() (all []catalog.ModelSpec) {
	for i := range 9 {
		all = append(all, spec(fmt.Sprint("m", i)))
	}
	return all
}

func TestFrontends(t *testing.T) {
	w := newWorld(t, limits())
	for _, c := range []struct{ address, seen, want string }{
		{"tcp:[::]:4000", "10.0.0.7", "tcp:10.0.0.7:4000"},
		{"tcp:0.0.0.0:4001", "fd00::7", "tcp:[fd00::7]:4001"},
		{"tcp::4002", "::ffff:10.0.0.7", "tcp:[::ffff:10.0.0.7]:4002"},
		{"tcp:host.example:4000", "10.0.0.7", "tcp:host.example:4000"},
		{"tcp:127.0.0.1:4000", "127.0.0.1", "tcp:127.0.0.1:4000"},
		{"inproc:f", "", "inproc:f"},
		{"tcp:[::]:4000", "", "tcp:127.0.0.1:4000"},
	} {
		if got, _, err := located(c.address, c.seen); err != nil || got != c.want {
			t.Errorf("%s seen at %s: %s, %v; want %s", c.address, c.seen, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "tcp:", "4000", "tcp:host", "tcp:[::1:4", "tcp:" + strings.Repeat("x", 200) + ":1"} {
		if _, err := w.frontend(catalog.FrontendInfo{Name: "f", Address: bad}, "10.0.0.1"); err == nil {
			t.Errorf("address %q is taken", bad)
		}
	}
	a, err := w.frontend(catalog.FrontendInfo{Name: "a", Instance: 1, Address: "tcp:[::]:4000"}, "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.frontend(catalog.FrontendInfo{Name: "b", Instance: 2, Address: "tcp:[::]:4000"}, "10.0.0.2"); err != nil {
		t.Fatalf("two frontends that listen on all addresses of two hosts: %v", err)
	}
	if _, err := w.frontend(catalog.FrontendInfo{Name: "c", Instance: 3, Address: "tcp:10.0.0.1:4000"}, "10.0.0.3"); err == nil || !strings.Contains(err.Error(), `frontend "a"`) {
		t.Errorf("an address that is another's: %v", err)
	}
	again, err := w.frontend(catalog.FrontendInfo{Name: "a", Instance: 1, Address: "tcp:[::]:4000"}, "10.0.0.1")
	if err != nil || len(w.frontends) != 2 {
		t.Errorf("the same process on another link: %v, %v", err, w.frontends)
	}
	w.leave(a) // the old link ends after it was replaced
	if w.leave(again); len(w.frontends) != 1 {
		t.Errorf("frontends %v", w.frontends)
	}
}

// A frontend beside the scheduler that listens everywhere is found there, by backends
// elsewhere, too.
func TestAFrontendBesideTheScheduler(t *testing.T) {
	w := newWorld(t, limits())
	if _, err := w.frontend(catalog.FrontendInfo{Name: "f", Instance: 1, Address: "tcp:[::]:4000"}, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	f := w.c.Frontend(0)
	for _, c := range []struct{ local, remote, want string }{
		{"127.0.0.1", "127.0.0.1", "tcp:127.0.0.1:4000"},
		{"10.0.0.1", "10.0.0.9", "tcp:10.0.0.1:4000"},
		{"fd00::1", "fd00::9", "tcp:[fd00::1]:4000"},
		{"", "", "tcp:127.0.0.1:4000"},
	} {
		if got := f.AddressFor(c.local, c.remote); got != c.want {
			t.Errorf("for a backend from %s that reaches %s: %s, want %s", c.remote, c.local, got, c.want)
		}
	}
}
