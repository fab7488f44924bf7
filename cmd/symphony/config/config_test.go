package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "symphony.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultsAreValid(t *testing.T) {
	c, err := Load("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Frontend.Shared { // whoever comes through a proxy on this host could name any object
		t.Error("shared memory is served unasked")
	}
}

// The layers lie over one another: file, flags, environment.
func TestLayers(t *testing.T) {
	path := write(t, "scheduler: {queue_max: 1, requests_max: 10, model_loops: 2}\nfrontend: {arena: 8MiB}\n")
	flags := []Set{{"scheduler.requests_max", "20"}, {"scheduler.model_loops", "3"}, {"scheduler.spin", "50us"}}
	environ := []string{"SYMPHONY_SCHEDULER__MODEL_LOOPS=4", "PATH=/bin", "SYMPHONY_REQUIRE_ONNXRUNTIME=1", "SYMPHONY_E2E_FULL=1", "SYMPHONY_CONFIG=x", "SYMPHONY_SCHEDULER__LISTEN=tcp:127.0.0.1:1,inproc:s"}
	c, err := Load(path, flags, environ)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Scheduler
	if s.QueueMax != 1 || s.RequestsMax != 20 || s.ModelLoops != 4 || s.Spin != 50*mono.Microsecond {
		t.Errorf("scheduler = %+v: want the file's queue_max, the flag's requests_max and spin, the environment's model_loops", s)
	}
	if len(s.Listen) != 2 || s.Listen[1] != "inproc:s" {
		t.Errorf("listen = %q", s.Listen)
	}
	if c.Frontend.Arena != 8<<20 || c.Frontend.MaxInFlight != Default().Frontend.MaxInFlight {
		t.Errorf("frontend = %+v", c.Frontend)
	}
}

// A frontend's schedulers are one address or a list, in each layer; a wrong one is named, and
// one that is there twice.
func TestSeveralSchedulers(t *testing.T) {
	const a, b = "tcp:10.0.0.1:9000", "tcp:10.0.0.2:9000"
	file := func(text string) Config {
		t.Helper()
		c, err := Load(write(t, text), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	flag, err := Load(write(t, "frontend: {scheduler: tcp:other:1}\n"), []Set{{"frontend.scheduler", a + "," + b}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	environ, err := Load("", nil, []string{"SYMPHONY_FRONTEND__SCHEDULER=" + a + "," + b})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Config{"list": file("frontend: {scheduler: [" + a + ", " + b + "]}\n"), "commas": file("frontend: {scheduler: '" + a + "," + b + "'}\n"),
		"flag": flag, "environment": environ} {
		if !slices.Equal(c.Frontend.Scheduler, []string{a, b}) {
			t.Errorf("%s: %q", name, c.Frontend.Scheduler)
		}
	}
	if c := file("frontend: {scheduler: " + a + "}\n"); !slices.Equal(c.Frontend.Scheduler, []string{a}) {
		t.Errorf("one: %q", c.Frontend.Scheduler)
	}
	for text, want := range map[string]string{
		"frontend: {scheduler: [" + a + ", 10.0.0.2:9000]}":        `frontend.scheduler: "10.0.0.2:9000" is no address`,
		"frontend: {scheduler: [" + a + ", " + b + ", " + a + "]}": `frontend.scheduler: "` + a + `" is there twice`,
		"frontend: {scheduler: []}":                                "frontend.scheduler: names 0 addresses, must be 1 to 64",
		"backend: {scheduler: '" + a + "," + b + "'}":              "a backend belongs to one scheduler",
	} {
		if _, err := Load(write(t, text), nil, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "1 error") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// All errors come at once, each with its key.
func TestAllErrorsAtOnce(t *testing.T) {
	path := write(t, `
log: {level: loud}
scheduler: {listen: ["udp:1"], model_loops: 0}
frontend: {http: nowhere, full_status: 500}
backend:
  pools:
    - {device_type: "", kind: gpu, devices: 0}
`)
	_, err := Load(path, nil, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, key := range []string{"log.level", "scheduler.listen", "scheduler.model_loops", "frontend.http", "frontend.full_status",
		"backend.pools[0].device_type", "backend.pools[0].kind", "backend.pools[0].devices", "configuration: 8 errors:\n"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%q is missing in:\n%v", key, err)
		}
	}
}

// What is of GPUs is for pools of kind cuda, and checked there.
func TestPoolsOfGPUs(t *testing.T) {
	c, err := Load(write(t, "backend: {pools: [{kind: cuda}, {kind: cuda, device_type: a, gpus: [GPU-1, \"0\"], memory: 20GiB, precision: tf32, provider: tensorrt}]}\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Backend.Pools[1]; len(p.GPUs) != 2 || p.GPUs[1] != "0" || p.Memory != 20<<30 || p.Precision != "tf32" || p.Provider != "tensorrt" {
		t.Errorf("%+v", p)
	}
	if c, err = Load("../../../examples/gpus.yaml", nil, nil); err != nil || c.Backend.Pools[0].Kind != "cuda" {
		t.Errorf("%+v, %v", c.Backend, err)
	}
	_, err = Load(write(t, `
backend:
  pools:
    - {kind: cuda, gpus: [a, a], devices: 1, memory: 1KiB, precision: int8, provider: rocm}
    - {device_type: cpu, kind: cpu, devices: 1, gpus: [a], memory: 1GiB, precision: fp32, provider: cuda}
`), nil, nil)
	for _, want := range []string{"pools[0].gpus: \"a\"", "pools[0].devices: is 1, and gpus names 2", "pools[0].memory", "pools[0].precision", "pools[0].provider",
		"pools[1].gpus: is for pools of kind cuda", "pools[1].precision", "pools[1].provider", "configuration: 8 errors:\n"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

// A value that cannot even be read does not hide the others.
func TestDecodingErrorsHideNothing(t *testing.T) {
	_, err := Load(write(t, "scheduler: {margin: fast, qeue_max: 3, model_loops: 0}\n"), nil, nil)
	for _, key := range []string{"with its unit", "qeue_max", "scheduler.model_loops"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%q is missing in:\n%v", key, err)
		}
	}
}

// What cannot be read and what is out of its bounds make one list with one count.
func TestErrorsAreOneList(t *testing.T) {
	for text, want := range map[string]string{
		"scheduler: {margin: fast, qeue_max: 3, model_loops: 0}\n": `configuration: 3 errors:
scheduler.margin: "fast" is no span of time: write it with its unit, like 50ms or 1.5s
scheduler.qeue_max: there is no such key, the nearest is scheduler.queue_max
scheduler.model_loops: is 0, must be 1 to 64`,
		"scheduler: {model_loops: 0}\n": "configuration: 1 error:\nscheduler.model_loops: is 0, must be 1 to 64",
		"one: 1\ntwo: 2\n":              "configuration: 2 errors:\none: there is no such key\ntwo: there is no such key",
	} {
		if _, err := Load(write(t, text), nil, nil); err == nil || err.Error() != want {
			t.Errorf("%serror\n%v\nwant\n%s", text, err, want)
		}
	}
}

// A wrong key outside of the file is named with where it was set.
func TestErrorsNameTheirOrigin(t *testing.T) {
	_, err := Load("", []Set{{Key: "scheduler.marginn", Value: "1ms"}, {Key: "scheduler.margin", Value: "1ms"}, {Key: "log.level", Value: "info"}}, []string{"SYMPHONY_FRONTEND__AREN=1GiB", "HOME=/"})
	for _, want := range []string{"--set scheduler.marginn", "the environment: SYMPHONY_FRONTEND__AREN"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	for _, right := range []string{"log.level", "--set scheduler.margin or"} {
		if err != nil && strings.Contains(err.Error(), right) {
			t.Errorf("names a key that is right:\n%v", err)
		}
	}
}

// So do values out of their bounds.
func TestBoundsNameTheirOrigin(t *testing.T) {
	_, err := Load("", []Set{{Key: "scheduler.queue_max", Value: "-1"}}, []string{"SYMPHONY_SCHEDULER__MODEL_LOOPS=0"})
	for _, want := range []string{"configuration: 2 errors", "--set scheduler.queue_max", "the environment: SYMPHONY_SCHEDULER__MODEL_LOOPS"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestWrongInputIsNamed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"scheduler: {qeue_max: 3}", "qeue_max"},
		{"scheduler: {margin: 5}", "with its unit"},
		{"scheduler: {margin: fast}", "with its unit"},
		{"backend: {pools: [{strict: maybe}]}", "\"maybe\" is neither true nor false"},
		{"backend: {pools: [{resident: 3}]}", "\"3\" is neither true nor false"},
		{"frontend: {arena: 12 parsecs}", "KiB"},
		{"scheduler: [", "configuration file"},
	} {
		_, err := Load(write(t, c.text), nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.text, err, c.want)
		}
	}
	if _, err := Load("/does/not/exist.yaml", nil, nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing file: %v", err)
	}
}

// 0 is a value: what is set to it is 0, and not what Default says.
func TestZeroIsZero(t *testing.T) {
	c, err := Load(write(t, "scheduler: {margin: 0, lead: 0s, delay_min: 0, delay_max: 0}\nfrontend: {reply_margin: 0ms}\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Scheduler; s.Margin != 0 || s.Lead != 0 || s.DelayMin != 0 || s.DelayMax != 0 || c.Frontend.ReplyMargin != 0 {
		t.Errorf("margin %v, lead %v, delays %v to %v, reply margin %v: all were set to 0", s.Margin, s.Lead, s.DelayMin, s.DelayMax, c.Frontend.ReplyMargin)
	}
	if _, err := Load(write(t, "scheduler: {margin: -1ms, lead: -1ms, delay_min: -1ms}\nfrontend: {reply_margin: -1ms}\n"), nil, nil); err == nil || !strings.Contains(err.Error(), "4 errors") {
		t.Errorf("negative spans: %v", err)
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"7": 7, "7B": 7, "2KiB": 2048, "3MiB": 3 << 20, " 1GiB": 1 << 30} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5MiB", "9999999999GiB", "MiB"} {
		if s, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %v, want an error", text, s)
		}
	}
}

// A group is a list of addresses; what names a scheduler may name a group.
func TestGroup(t *testing.T) {
	c, err := Load(write(t, "scheduler: {standby: \"tcp:a:1, tcp:b:2\", heartbeat: 2ms}\ncontrol: {scheduler: [\"tcp:a:1+tcp:b:2\", \"tcp:c:3\"]}\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Addresses{"tcp:a:1", "tcp:b:2"}); !slices.Equal(c.Scheduler.Standby, want) || !slices.Equal(transport.SplitGroup(c.Control.Scheduler[0]), want) || c.Scheduler.Heartbeat != 2*mono.Millisecond {
		t.Errorf("standby %v, a controller's group %v, heartbeat %v", c.Scheduler.Standby, transport.SplitGroup(c.Control.Scheduler[0]), c.Scheduler.Heartbeat)
	}
	if d := Default().Scheduler; len(d.Standby) != 0 || d.Heartbeat != 0 {
		t.Errorf("without a word: standby %v, heartbeat %v", d.Standby, d.Heartbeat)
	}
	for text, want := range map[string]string{
		"scheduler: {standby: \"tcp:a:1,tcp:a:1\"}":                                "scheduler.standby: \"tcp:a:1\" is there twice",
		"scheduler: {standby: \"tcp:a:1+tcp:b:1\"}":                                "scheduler.standby: \"tcp:a:1+tcp:b:1\": the schedulers of the group stand apart",
		"scheduler: {listen: [\"tcp:127.0.0.1:1\"], standby: \"tcp:127.0.0.1:1\"}": "scheduler.standby: has this scheduler's own address only",
		"scheduler: {standby: \"udp:a:1\"}":                                        "scheduler.standby: \"udp:a:1\" is no address",
		"scheduler: {heartbeat: 1us}":                                              "scheduler.heartbeat: is 1µs",
		"scheduler: {heartbeat: 2s}":                                               "scheduler.heartbeat: is 2000ms",
		"control: {scheduler: \"tcp:a:1+tcp:a:1\"}":                                "control.scheduler: \"tcp:a:1\" is there twice",
		"control: {scheduler: \"tcp:a:1+\"}":                                       "lacks an address beside +",
	} {
		if _, err := Load(write(t, text+"\n"), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A backend has one scheduler, or one group of them: addresses with + between.
func TestBackendScheduler(t *testing.T) {
	for text, want := range map[string]string{
		"tcp:a:1":                          "",
		"tcp:a:1+tcp:b:2":                  "",
		"tcp:a:1 + inproc:b":               "",
		"tcp:a:1,tcp:b:2":                  "belongs to one scheduler, or to one group of them: A+B",
		"tcp:a:1+tcp:b:2,tcp:c:3":          "belongs to one scheduler",
		"tcp:a:1+":                         "lacks an address beside +",
		"+tcp:a:1":                         "lacks an address beside +",
		"tcp:a:1+udp:2":                    `"udp:2" is no address`,
		"tcp:a:1+tcp:b:2+tcp:a:1":          `"tcp:a:1" is there twice`,
		strings.Repeat("+tcp:a:1", 17)[1:]: "a group of 17 schedulers, at most 16",
	} {
		c, err := Load("", []Set{{"backend.scheduler", text}}, nil)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		case want == "" && c.Backend.Scheduler != text:
			t.Errorf("%s became %q", text, c.Backend.Scheduler)
		}
	}
}

// A pool has pages where it says so, by count or as many as its memory has.
func TestPagedPools(t *testing.T) {
	c, err := Load(write(t, `
backend:
  pools:
    - {device_type: a, kind: emulated, devices: 1, strict: true, paged: {pages: 1376}}
    - {device_type: b, kind: emulated, devices: 1, memory: 100MiB, paged: {}}
    - {device_type: c, kind: emulated, devices: 1, memory: 100MiB, paged: {page: 1MiB, pcie: shared, bandwidth: 1GiB}}
    - {device_type: d, kind: emulated, devices: 1, memory: 100MiB}
    - {kind: cuda, paged: {pages: 4000}}
`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Backend.Pools
	for i, want := range []int{1376, 6, 100} {
		if p[i].Paged == nil || p[i].Paged.Count(p[i].Memory) != want {
			t.Errorf("pool %d: %+v, want %d pages", i, p[i].Paged, want)
		}
	}
	if c, err := Load("../../../examples/paged.yaml", nil, nil); err != nil || c.Backend.Pools[0].Paged.Count(0) != 1376 {
		t.Errorf("%+v, %v", c.Backend, err)
	}
	if !p[0].Strict || p[1].Strict {
		t.Errorf("strict: %v, %v; want the first alone", p[0].Strict, p[1].Strict)
	}
	if p[4].Paged.Count(0) != 4000 {
		t.Errorf("of GPUs: %+v", p[4].Paged)
	}
	if p[3].Paged != nil || p[0].Paged.Size() != 16<<20 || p[2].Paged.PCIe != "shared" || p[2].Paged.Bandwidth != 1<<30 {
		t.Errorf("%+v", p)
	}
	_, err = Load(write(t, `
backend:
  pools:
    - {device_type: a, kind: emulated, devices: 1, paged: {}}
    - {device_type: b, kind: emulated, devices: 1, memory: 8MiB, paged: {}}
    - {device_type: c, kind: emulated, devices: 1, memory: 100MiB, paged: {page: 1, pages: 3, pcie: own}}
    - {kind: cuda, paged: {pages: -1, bandwidth: 1GiB}}
`), nil, nil)
	for _, want := range []string{"pools[0].paged.pages: memory (0B) has 0 pages of 16MiB", "pools[1].paged.pages: memory (8MiB)", "pools[2].paged.page: is 1", "pools[2].paged.pages: is 3 beside a memory of 100MiB",
		`pools[2].paged.pcie: is "own"`, "pools[3].paged.bandwidth: is for pools of kind emulated", "pools[3].paged.pages: is -1, must be 1 to 16777216; left out, a device has as many", "configuration: 7 errors:\n"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if _, err := Load(write(t, "backend: {pools: [{device_type: a, kind: emulated, devices: 1, paged: {page_size: 1MiB}}]}\n"), nil, nil); err == nil {
		t.Error("an unknown key is taken")
	}
}
