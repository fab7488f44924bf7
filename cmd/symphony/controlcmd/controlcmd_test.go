package controlcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/api/fakecontrol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// commands are as the binary has them.
type commands struct {
	Model  Model  `cmd:""`
	Plan   Plan   `cmd:""`
	Advice Advice `cmd:""`
}

// world is a control plane that commands are run against.
type world struct {
	*testing.T
	*fakecontrol.Control
	url  string
	ctx  context.Context
	in   string
	live bool
}

func newWorld(t *testing.T) *world {
	f := &fakecontrol.Control{Broken: func(name, _ string) string {
		if name == "broken" {
			return "model.onnx: it ends early"
		}
		return ""
	}}
	s := httptest.NewServer(api.New(f, api.Options{Token: "secret"}))
	t.Cleanup(s.Close)
	return &world{T: t, Control: f, url: s.URL, ctx: t.Context()}
}

// step is what every command has.
type step interface{ Run() error }

// run runs a command line, and returns what it printed and noted.
func (w *world) run(args ...string) (out, notes string, err error) {
	w.Helper()
	var c commands
	parser, err := kong.New(&c, kong.Name("symphony"), kong.Exit(func(int) { w.Fatal("exit") }))
	if err != nil {
		w.Fatal(err)
	}
	ctx, err := parser.Parse(append(args, "--control", w.url, "--token", "secret", "--patience", "0s"))
	if err != nil {
		return "", "", err
	}
	var o, n safeBuffer
	at := surroundings{w.ctx, &o, &n, strings.NewReader(w.in), w.live}
	err = c.call(ctx.Command(), at)
	return o.String(), n.String(), err
}

// safeBuffer is written by several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// call is what Run does, with other surroundings.
func (c *commands) call(command string, at surroundings) error {
	if command == "advice" {
		return c.Advice.runIn(at, c.Advice.show)
	}
	m, p := &c.Model, &c.Plan
	words := strings.Fields(command)
	switch words[0] + " " + words[1] {
	case "model add":
		return m.Add.runIn(at, m.Add.add)
	case "model update":
		return m.Update.runIn(at, m.Update.update)
	case "model remove":
		return m.Remove.runIn(at, m.Remove.remove)
	case "model list":
		return m.List.runIn(at, m.List.list)
	case "model show":
		return m.Show.runIn(at, m.Show.show)
	case "model versions":
		return m.Versions.runIn(at, m.Versions.versions)
	case "model share":
		return m.Share.runIn(at, m.Share.share)
	case "model rollback":
		return m.Rollback.runIn(at, m.Rollback.rollback)
	case "plan show":
		return p.Show.runIn(at, p.Show.show)
	case "plan diff":
		return p.Diff.runIn(at, p.Diff.diff)
	case "plan apply":
		return p.Apply.runIn(at, p.Apply.apply)
	case "plan pause":
		return p.Pause.runIn(at, p.Pause.pause)
	case "plan resume":
		return p.Resume.runIn(at, p.Resume.resume)
	case "plan history":
		return p.History.runIn(at, p.History.history)
	}
	return fmt.Errorf("%s is not run by this test", command)
}

// ok demands success, with some words in what was printed.
func (w *world) ok(line string, words ...string) (out string) {
	w.Helper()
	out, notes, err := w.run(strings.Fields(line)...)
	if err != nil {
		w.Errorf("%s: %v", line, err)
	}
	for _, word := range words {
		if !strings.Contains(out+notes, word) {
			w.Errorf("%s: %q is missing in\n%s%s", line, word, out, notes)
		}
	}
	return out
}

// bad demands an error with some words.
func (w *world) bad(line string, words ...string) {
	w.Helper()
	out, notes, err := w.run(strings.Fields(line)...)
	if err == nil {
		w.Errorf("%s: no error:\n%s%s", line, out, notes)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error()+out, word) {
			w.Errorf("%s: %q is missing in: %v", line, word, err)
		}
	}
}

const onDisk = " --source file:///models/m"

// A model's life: added, served, changed, a canary, rolled back, removed.
func TestModelsLife(t *testing.T) {
	w := newWorld(t)
	w.ok("model list", "symphony model add")
	w.ok("model add m/1 --slo 50ms --max-batch 8"+onDisk, "m/1: waiting", "model show m --wait")
	w.ok("model show m --wait", "serving in s1 on 2 GPUs", "m: the latest version is to be served")
	w.ok("model show m/1", "source: file:///models/m", "SLO 50ms, batches of at most 8")
	w.ok("model versions m --policy all", "all versions are to be served")
	w.ok("model add m --model-version 2 --wait"+onDisk, "m/2: serving", "m/2: loading")
	w.ok("model share m 1=90 2=10", "1=90% 2=10%", "rollback m returns to no shares")
	w.ok("model share m 1=0% 2=100%", "1=0% 2=100%", "returns to 1=90% 2=10%")
	w.ok("model list", "MODEL", "1 serving, 2 serving", "1=0% 2=100%")
	w.ok("model rollback m", "1=90% 2=10%")
	w.ok("model share m --clear", "the highest version")
	w.ok("model update m --slo 20ms --drop-policy head --device-type a100,h100", "SLO 20ms, drop policy head, on a100, h100")
	w.ok("model update m --slo 0s --device-type=", "settings: drop policy head\n")
	w.ok("model update m/2 --max-batch 4")
	w.ok("model update m --unload", "m: stopped", "idle")
	w.ok("model list --state idle", "2, idle")
	w.ok("model update m --load", "m: all versions are to be served")
	w.ok("model versions m --listed 1", "versions 1 are to be served")
	w.ok("model versions m --policy latest --latest 2", "the latest 2 versions")
	w.ok("model remove m/1", "1 of 1 removed")
	w.ok("model remove m", "1 of 1 removed")
	w.bad("model show m", "there is none")
}

func TestErrorsSayWhatToDo(t *testing.T) {
	w := newWorld(t)
	w.ok("model add m/1" + onDisk)
	for line, words := range map[string][]string{
		"model add":            {"which model?", "--from"},
		"model add m" + onDisk: {"m/VERSION", "--model-version"},
		"model add m/1 --model-version 2" + onDisk:  {"give one of them"},
		"model add m/x" + onDisk:                    {"whole number"},
		"model add m/2":                             {"--source: is missing", "s3://bucket"},
		"model add m/2 --source /models":            {"--source", "file:///models"},
		"model add m/1 --source s3://b/m":           {"versions do not change"},
		"model add m/2 --max-batch 5000" + onDisk:   {"--max-batch: 5000"},
		"model add m/2 --slo 2h" + onDisk:           {"--slo: 2h"},
		"model add m/2 --drop-policy tail" + onDisk: {"--drop-policy", "target, head"},
		"model add m/2 --device-type a/b" + onDisk:  {"--device-type", "no device type"},
		"model add m/2 --digest XY" + onDisk:        {"--digest", "hexadecimal"},
		"model add m/2 --from x.csv":                {"give them there alone"},
		"model update m":                            {"nothing to change", "symphony model add"},
		"model update m --source file:///x":         {"write m/VERSION"},
		"model update m/7 --digest 0":               {"no version 7"},
		"model update m/1 --source /x":              {"--source", "file:///x"},
		"model update m/1 --digest XY":              {"--digest", "hexadecimal"},
		"model update m/1 --unload":                 {"of the whole model", "versions m --listed"},
		"model update m --load --unload":            {"--load"},
		"model update nobody --slo 5ms":             {"nobody"},
		"model remove":                              {"which models?"},
		"model remove nobody/1 nobody":              {"nobody/1: model nobody: there is none", "2 of 2 failed"},
		"model list --state bad":                    {"--state", "none of"},
		"model show m/7":                            {"no version 7"},
		"model versions m --latest 2":               {"--policy latest"},
		"model versions m --listed 9":               {"no version 9"},
		"model versions m --policy all --listed 1":  {"give one of them"},
		"model versions m --policy newest":          {"latest"},
		"model share m":                             {"--clear"},
		"model share m 1":                           {"VERSION=WEIGHT"},
		"model share m 1=-1":                        {"no weight"},
		"model share m 1=50% 2=20%":                 {"100% together: they are 70%"},
		"model share m 1=50% 2=50":                  {"for all versions"},
		"model share m 1=33.333%":                   {"two decimals"},
		"model share m 1=1 --clear":                 {"give one of them"},
		"model share m 2=1":                         {"no version 2"},
		"model rollback m":                          {"nothing to roll back to"},
	} {
		w.bad(line, words...)
	}
}

// A version that fails is an error with its reason, and shows.
func TestFailure(t *testing.T) {
	w := newWorld(t)
	w.bad("model add broken/1 --wait"+onDisk, "broken/1 failed: model.onnx: it ends early")
	w.ok("model list --state failed", "1 failed")
	w.ok("model show broken", "failed: model.onnx: it ends early")
	w.bad("model show broken --wait", "it ends early", "VERSION")
}

// Ctrl-C while waiting leaves the order standing, and says so; so does the end of --timeout.
func TestInterruptedWait(t *testing.T) {
	w := newWorld(t)
	w.SetHeld(true)
	ctx, cancel := context.WithCancel(t.Context())
	w.ctx = ctx
	go func() {
		for w.Calls()["await"] < 2 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	w.bad("model add m/1 --wait"+onDisk, "interrupted; the order stands: symphony model show m")
	w.ctx = t.Context()
	w.bad("model show m --wait --timeout 50ms", "not within 50ms; the order stands")
	w.bad("model add --wait --timeout 50ms --from "+many(t, "csv", 3), "3 of 3 added", "not within 50ms; the orders stand")
	if m, err := w.Model(t.Context(), "m"); err != nil || len(m.Versions) != 1 {
		t.Errorf("the order does not stand: %+v, %v", m, err)
	}
	if n := w.Calls()["await"]; n > 20 {
		t.Errorf("%d calls to wait", n)
	}
}

// many are n models as a file of a form.
func many(t *testing.T, form string, n int) string {
	t.Helper()
	var b strings.Builder
	switch form {
	case "csv":
		b.WriteString("name,version,source,slo,max_batch,device_types\n# a remark\n")
	case "yaml":
		b.WriteString("# a remark\n")
	case "array.json":
		b.WriteString("[")
	}
	for i := range n {
		name := fmt.Sprintf("m%04d", i)
		switch form {
		case "csv":
			fmt.Fprintf(&b, "%s,1,file:///models/%s,50ms,8,a100;h100\n", name, name)
		case "yaml":
			fmt.Fprintf(&b, "- {name: %s, version: 1, source: \"file:///models/%s\", slo: 50ms, max_batch: 8, device_types: [a100, h100]}\n", name, name)
		default:
			if form == "array.json" && i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, `{"name":"%s/1","source":"file:///models/%s","slo":"50ms","max_batch":8,"device_types":["a100","h100"]}`+"\n", name, name)
		}
	}
	if form == "array.json" {
		b.WriteString("]")
	}
	path := filepath.Join(t.TempDir(), "models."+form)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Many models from a file of each form, added, waited for, and removed by one command.
func TestManyFromFiles(t *testing.T) {
	for form, n := range map[string]int{"csv": 1000, "yaml": 50, "jsonl": 50, "array.json": 50} {
		w := newWorld(t)
		path := many(t, form, n)
		began := time.Now()
		all := fmt.Sprintf("%d of %d ", n, n)
		w.ok("model add --from "+path, all+"added")
		t.Logf("%s: %d models added in %v", form, n, time.Since(began))
		m, err := w.Model(t.Context(), "m0049")
		want := api.Settings{SLO: api.Span(50 * time.Millisecond), MaxBatch: 8, DeviceTypes: []string{"a100", "h100"}}
		if err != nil || fmt.Sprint(m.Versions[0].Settings) != fmt.Sprint(want) || m.Versions[0].Source != "file:///models/m0049" {
			t.Errorf("%s: %+v, %v", form, m, err)
		}
		w.ok("model add --wait --from "+path, all+"added", all+"served")
		w.ok("model remove --from "+path, all+"removed")
		w.ok("model list", "no models")
	}
}

func TestManyFromStandardInput(t *testing.T) {
	w := newWorld(t)
	w.in = "name,version,source\na,1,file:///m\n"
	w.ok("model add --slo 30ms --from -", "1 of 1 added")
	if m, err := w.Model(t.Context(), "a"); err != nil || m.Versions[0].Settings.SLO != api.Span(30*time.Millisecond) {
		t.Errorf("%+v, %v", m, err)
	}
	w.in = "name: b\nversion: 3\nsource: file:///m\n---\nname: c\nversion: 1\nsource: file:///m\n"
	w.ok("model add --from -", "2 of 2 added")
}

// Nothing of a file that is wrong is ordered, and the error says where it is wrong.
func TestBadFiles(t *testing.T) {
	w := newWorld(t)
	for in, words := range map[string][]string{
		"":    {"lists nothing"},
		"[]":  {"lists nothing"},
		"7":   {"want objects"},
		"[7]": {"no object"},
		"name,version,source\na,1,file:///m\nb,x,file:///m\n":             {"line 3", "whole number"},
		"name,version,source\na,1,file:///m\nb\n":                         {"3", "wrong number of fields"},
		"name,version,sorce\na,1,file:///m\n":                             {"line 2", "sorce", "the nearest is source"},
		"name,version,source,max_batch\na,1,file:///m,many\n":             {"line 2", "max_batch", "no whole number"},
		"name,version,source\na,1,file:///m\na,1,file:///n\n":             {"line 3", "a/1 is at line 2"},
		"name,version,source\na,1,/m\n":                                   {"line 2", "file:///m"},
		"{\"name\":\"a\",\"version\":\"1\",\"source\":\"file:///m\"}\n{x": {"line 2"},
		"{\"name\":\"a\",\"version\":1.5,\"source\":\"file:///m\"}":       {"whole number"},
		"{\"name\":\"a/1\",\"version\":2,\"source\":\"file:///m\"}":       {"version 1 in the name"},
		"- {name: a, version: 1, source: file:///m, slo: 5}":              {"slo", "50ms"},
		"- {name: a, version: 1, source: file:///m, slo: fast}":           {"slo", "with its unit"},
		"- {name: a, version: 1, source: [":                               {"yaml"},
	} {
		w.in = in
		before := fmt.Sprint(w.Calls())
		w.bad("model add --from -", words...)
		if fmt.Sprint(w.Calls()) != before {
			t.Errorf("%q: something was ordered", in)
		}
	}
	w.bad("model add --from /nowhere/models.csv", "--from", "no such file")
}

// Failures of some do not keep the others; all are told, and in JSON too.
func TestManyWithFailures(t *testing.T) {
	w := newWorld(t)
	w.ok("model add m0001/1 --source file:///elsewhere")
	out, _, err := w.run("model", "add", "--json", "--from", many(t, "csv", 50))
	var got tally
	if e := json.Unmarshal([]byte(out), &got); e != nil || got.Done != 49 || len(got.Failed) != 1 || got.Failed[0].Model != "m0001/1" {
		t.Errorf("%v: %s", e, out)
	}
	if err == nil || err.Error() != "1 of 50 failed" {
		t.Errorf("%v", err)
	}
	w.SetAway(api.Away(0, false, "etcd does not answer"))
	before := w.Calls()["add"]
	w.bad("model add --from "+many(t, "csv", 500), "given up after 0 of 500", "etcd does not answer")
	if n := w.Calls()["add"] - before; n > 2*atOnce {
		t.Errorf("%d calls while nobody answers", n)
	}
	w.url = "http://127.0.0.1:1"
	w.bad("model add --from "+many(t, "csv", 500), "given up after 0", "--control")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.ctx = ctx
	w.bad("model add --from "+many(t, "csv", 5), "interrupted after 0 of 5", "what was ordered stands")
}

func TestPlans(t *testing.T) {
	w := newWorld(t)
	w.ok("plan show", "fake leads", "no plan was made yet")
	w.ok("plan history", "no plan was made yet")
	w.ok("model add m/1 --wait" + onDisk)
	w.ok("plan diff", "the first plan: moves 1 model (0 stay) and 1 GPU; 2 loads of 4.0 MiB in all", "model m/1", "nowhere -> s1", "1 load, 1.0 MiB", "0 -> 2 GPUs", "GPU h/emulated/0", "s0 -> s1", "1 load, 3.0 MiB")
	w.ok("plan pause --why test", "symphony plan resume")
	w.ok("plan show", "epochs are paused", "(test)")
	w.ok("plan apply --wait", "plan 1, in-force", "1 model, ")
	w.ok("plan resume", "made again")
	w.ok("plan diff", "nothing would change")
	w.ok("plan show --models", "SUB-CLUSTER", "emulated", "s1: m/1")
	w.ok("plan history", "EPOCH", "by hand", "in-force")
	w.bad("plan apply --file /nowhere", "--file", "no such file")
	w.bad("plan apply --timeout 3s", "--timeout bounds --wait")
	for text, want := range map[string]string{"{": "--file", "plan: {epoch: 1}": "it has no sub_clusters", "sub_clusters: [{name: a, device_type: emulated, modles: []}]": "the nearest is models",
		"sub_clusters: [{name: a, device_type: emulated, models: [m/1], gpus: 1}, {name: b, device_type: emulated, models: [m/1], gpus: 1}]": "in a already",
		"sub_clusters: [{name: a, device_type: emulated, models: [x/1], gpus: 1}]":                                                           "not in the catalogue"} {
		w.in = text
		w.bad("plan apply --file -", want)
	}
	w.in = w.ok("plan show --json")
	w.ok("plan apply --wait --file -", "plan 2, in-force", "1 model, ")
	w.in = "sub_clusters:\n- {name: a, device_type: emulated, models: [], gpus: 1}\n- {name: b, device_type: emulated, models: [m/1], gpus: 1}\n"
	w.ok("plan apply --file -", "plan 3, in-force")
	w.ok("plan show --models", "b: m/1")
	var shown shownPlan
	if err := json.Unmarshal([]byte(w.ok("plan show --json")), &shown); err != nil || shown.Plan.Epoch != 3 || shown.State.Name != "fake" {
		t.Errorf("%+v, %v", shown, err)
	}
	w.SetAway(api.Away(0, false, "etcd does not answer"))
	w.bad("plan show", "the store memory is away", "what is served goes on")
	w.bad("plan apply", "etcd does not answer")
}

func TestWrongTokenAndAddress(t *testing.T) {
	w := newWorld(t)
	f := Flags{Control: w.url, Token: "guess"}
	err := f.runIn(surroundings{ctx: t.Context(), out: io.Discard, notes: io.Discard}, func(s *session) error { return listCmd{}.list(s) })
	if !errors.Is(err, &api.Error{Kind: api.KindUnauthorized}) || !strings.Contains(err.Error(), "--token") {
		t.Errorf("%v", err)
	}
	f.Control = "localhost"
	if err := f.runIn(surroundings{ctx: t.Context()}, nil); err == nil || !strings.Contains(err.Error(), "--control") {
		t.Errorf("%v", err)
	}
}

// On a terminal progress is one line; elsewhere it has no control characters.
func TestProgress(t *testing.T) {
	for _, live := range []bool{false, true} {
		w := newWorld(t)
		w.live = live
		_, notes, err := w.run(strings.Fields("model add m/1 --wait" + onDisk)...)
		if err != nil || strings.Contains(notes, "\x1b") != live || !strings.Contains(notes, "measuring") {
			t.Errorf("live %v: %q, %v", live, notes, err)
		}
	}
}

// The files of a version are other ones from now on: while it is not served, or where they are the
// same elsewhere.
func TestUpdateFiles(t *testing.T) {
	w := newWorld(t)
	w.SetHeld(true)
	w.ok("model add m/1" + onDisk)
	digest := strings.Repeat("0a", 16)
	w.ok("model update m/1 --source file:///elsewhere --digest "+digest, "0a0a0a0a")
	w.ok("model show m/1", "source: file:///elsewhere", "digest: "+digest)
	w.ok("model update m/1 --digest " + strings.Repeat("0b", 16))
	w.ok("model show m/1", "source: file:///elsewhere", "digest: 0b0b")
	w.SetHeld(false)
	w.ok("model show m --wait")
	w.bad("model update m/1 --source file:///others", "is served", "another version")
}

// What is printed is what --digest takes, and nothing else.
func TestDigest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"config.yaml": "platform: emulated\n", "1/model.onnx": "weights"} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var out, notes strings.Builder
	if err := (digestCmd{Source: dir}).print(t.Context(), &out, &notes); err != nil {
		t.Fatal(err)
	}
	digest := strings.TrimSpace(out.String())
	spec := api.VersionSpec{Source: "file://" + dir, Digest: digest}
	if err := spec.Check(); err != nil || out.Len() != 33 || !strings.Contains(notes.String(), "version 1: 2 files, 26 bytes") {
		t.Errorf("%q, %q: %v", out.String(), notes.String(), err)
	}
	out.Reset()
	if err := (digestCmd{Source: "file://" + dir, ModelVersion: "1", JSON: true}).print(t.Context(), &out, &notes); err != nil || !strings.Contains(out.String(), `"digest": "`+digest+`"`) || !strings.Contains(out.String(), `"files": 2`) {
		t.Errorf("%s, %v", out.String(), err)
	}
	for what, c := range map[string]digestCmd{"no version": {Source: dir, ModelVersion: "x"}, "nothing there": {Source: filepath.Join(dir, "nowhere")}, "no store": {Source: "ftp://h/m"}} {
		if err := c.print(t.Context(), &out, &notes); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
