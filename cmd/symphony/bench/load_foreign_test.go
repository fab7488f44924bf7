package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/transport/mono"
)

// foreign is a server of the protocol that is not ours: it has what answers says and
// no more, and takes plain JSON only. It does not look at the timeout.
type foreign struct {
	answers map[string]string // "GET /v2" to what it says
	infers  atomic.Int64
	wrong   atomic.Pointer[string] // a request that it does not understand
}

// slowAnswer is how long foreign takes for each fourth request; each fifth it refuses.
const slowAnswer = 400 * time.Millisecond

func newForeign(t *testing.T, answers map[string]string) (*foreign, string) {
	t.Helper()
	f := &foreign{answers: answers}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s.URL
}

func (f *foreign) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/infer") {
		f.infer(w, r)
		return
	}
	text, ok := f.answers[r.Method+" "+r.URL.Path]
	if !ok {
		http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
		return
	}
	io.WriteString(w, text)
}

func (f *foreign) infer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Inputs []struct {
			Name, Datatype string
			Shape          []int64
			Data           []any
		}
	}
	err := json.NewDecoder(r.Body).Decode(&req)
	got := ""
	for _, in := range req.Inputs {
		got += fmt.Sprintf("%s %s %v %d; ", in.Name, in.Datatype, in.Shape, len(in.Data))
	}
	const want = "pixels FP32 [1 4] 4; tokens INT64 [1 1 3] 3; text BYTES [1] 1; "
	if err != nil || got != want || r.Header.Get("Content-Type") != "application/json" {
		text := fmt.Sprintf("%v, %s, %v", err, got, r.Header)
		f.wrong.Store(&text)
	}
	switch n := f.infers.Add(1); {
	case n%5 == 0:
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"error":"the queue\nis full"}`)
		return
	case n%4 == 0:
		time.Sleep(slowAnswer)
	}
	io.WriteString(w, `{"model_name":"m","model_version":"1","parameters":{"sequence_id":0,"nested":{"a":[1]}},"outputs": [{"name":"y","datatype":"FP32","shape":[1,2],"parameters":{"unheard_of":true},"data":[0.1,0.9]}]}`)
}

const foreignMetadata = `{"name":"m","versions":[],"platform":"","inputs":[{"name":"pixels","datatype":"FP32","shape":[-1,4]},
	{"name":"tokens","datatype":"INT64","shape":[-1,-1,3]},{"name":"text","datatype":"BYTES","shape":[-1]}],"outputs":[]}`

// A server that has no list of models, no configuration and no extension gets its load:
// what is late by --slo is late, though the server thinks otherwise, and what it refuses
// is told in its words.
func TestLoadDrivesAForeignServer(t *testing.T) {
	f, at := newForeign(t, map[string]string{"GET /v2/models/m": foreignMetadata})
	c := parsed[loadCmd](t, "--url="+at+"/", "--models=m", "--slo=200ms", "--rate=200", "--duration=1s", "--warmup=100ms", "--quiet")
	target, asked, end, err := c.target(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if len(asked) != 1 || asked[0].slo != 200*mono.Millisecond {
		t.Errorf("asked %v", asked)
	}
	rep, err := c.offer(t.Context(), target, asked, nil)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := f.wrong.Load(); wrong != nil {
		t.Errorf("the server was sent: %s", *wrong)
	}
	bad := rep.All.Bad
	if rep.Lost != 0 || rep.All.Goodput == 0 || bad["late"] == 0 || bad["http_503"] == 0 || bad["connection"] != 0 || bad["no_outputs"] != 0 {
		t.Errorf("lost %d, goodput %v, bad %v", rep.Lost, rep.All.Goodput, bad)
	}
	said := target.(*load.HTTPTarget).Complaints()
	if len(said) != 1 || said["http_503"] != "POST "+at+"/v2/models/m/infer: 503 Service Unavailable: the queue is full" {
		t.Errorf("complaints %q", said)
	}
}

// A configuration in Triton's form, of a model with two versions.
const (
	tritonIndex  = `[{"name":"m","version":"1","state":"READY"},{"name":"m","version":"2","state":"READY"},{"name":"broken","version":"1","state":"UNAVAILABLE","reason":"x"}]`
	tritonConfig = `{"name":"m","max_batch_size":8,"parameters":{"EXECUTION_ENV_PATH":{"string_value":"/x"},"other":7},"dynamic_batching":{}}`
)

// Each model is found once; its SLO is --slo's, or its configuration's.
func TestLoadFindsForeignModels(t *testing.T) {
	triton := map[string]string{"POST /v2/repository/index": tritonIndex, "GET /v2/models/m": foreignMetadata, "GET /v2/models/m/config": tritonConfig,
		"GET /v2": `{"name":"triton","extensions":["classification","binary_tensor_data"]}`}
	withSLO := map[string]string{"POST /v2/repository/index": `[{"name":"m"}]`, "GET /v2/models/m": foreignMetadata,
		"GET /v2/models/m/config": `{"parameters":{"slo_ms":{"string_value":"25"}}}`}
	for name, c := range map[string]struct {
		answers map[string]string
		flags   []string
		slo     mono.Dur
	}{
		"Triton":                 {triton, []string{"--slo=40ms"}, 40 * mono.Millisecond},
		"KServe":                 {map[string]string{"GET /v2/models": `{"models":["m"]}`, "GET /v2/models/m": foreignMetadata}, []string{"--slo=40ms"}, 40 * mono.Millisecond},
		"slo_ms":                 {withSLO, nil, 25 * mono.Millisecond},
		"--slo over slo_ms":      {withSLO, []string{"--slo=40ms"}, 40 * mono.Millisecond},
		"no metadata":            {nil, []string{"--slo=40ms", "--models=m", "--input=a:0:fp32:1x4", "--input=b:BYTES:1"}, 40 * mono.Millisecond},
		"an index that is HTML":  {map[string]string{"POST /v2/repository/index": "<html>", "GET /v2/models/m": foreignMetadata}, []string{"--slo=40ms", "--models=m"}, 40 * mono.Millisecond},
		"metadata as it is here": {map[string]string{"GET /v2/models/m": `{"inputs":[{"name":"x","datatype":"FP32","shape":[4]}]}`}, []string{"--slo=40ms", "--models=m"}, 40 * mono.Millisecond},
	} {
		_, at := newForeign(t, c.answers)
		_, asked, end, err := parsed[loadCmd](t, append(c.flags, "--url="+at)...).target(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		end()
		if len(asked) != 1 || asked[0] != (askedModel{"m", c.slo}) {
			t.Errorf("%s: asked %v", name, asked)
		}
	}
}

// The address may be written as people write it: with slashes, with the protocol's own
// path, behind a path of a proxy.
func TestLoadTakesAddressesAsTheyAreWritten(t *testing.T) {
	for path, after := range map[string]string{"": "", "/": "", "//": "", "/v2": "", "/v2/": "", "/proxy": "/proxy", "/proxy/v2/": "/proxy", "/v20": "/v20"} {
		_, at := newForeign(t, map[string]string{"POST " + after + "/v2/repository/index": `[{"name":"m"}]`, "GET " + after + "/v2/models/m": foreignMetadata})
		_, asked, end, err := parsed[loadCmd](t, "--slo=40ms", "--url="+at+path).target(t.Context())
		if err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		end()
		if len(asked) != 1 {
			t.Errorf("%q: asked %v", path, asked)
		}
	}
}

// What lacks is said with the flag that does without it.
func TestLoadSaysWhatAForeignServerLacks(t *testing.T) {
	metadata := func(text string) map[string]string { return map[string]string{"GET /v2/models/m": text} }
	for want, c := range map[string]struct {
		answers map[string]string
		flags   string
	}{
		"model m: the server names no slo_ms in its configuration: give --slo":                            {metadata(foreignMetadata), "--models=m"},
		"the server does not list its models, name them with --models: POST ":                             {metadata(foreignMetadata), "--slo=40ms"},
		"no ready model matches [n]; ready are [m]":                                                       {map[string]string{"POST /v2/repository/index": tritonIndex}, "--slo=40ms --models=n"},
		`404 Not Found: {"detail":"Not Found"}; --input NAME:TYPE:SHAPE does without its metadata`:        {nil, "--slo=40ms --models=m"},
		"model m: its metadata names no inputs: give --input NAME:TYPE:SHAPE":                             {metadata(`{"inputs":[]}`), "--slo=40ms --models=m"},
		`input x is of "BF16", which is no type that can be made here`:                                    {metadata(`{"inputs":[{"name":"x","datatype":"BF16","shape":[1]}]}`), "--slo=40ms --models=m"},
		"input x of shape [1 99999999999] is larger than":                                                 {metadata(`{"inputs":[{"name":"x","datatype":"INT8","shape":[-1,99999999999]}]}`), "--slo=40ms --models=m"},
		`--input "x:FP32": write NAME:TYPE:SHAPE, for example x:FP32:1x784`:                               {nil, "--slo=40ms --models=m --input=x:FP32"},
		`--input "x:FP32:1x-1": "-1" is no dimension; write NAME:TYPE:SHAPE, for example x:FP32:1x784`:    {nil, "--slo=40ms --models=m --input=x:FP32:1x-1"},
		`--input "x:FLOAT:1": input x is of "FLOAT", which is no type that can be made here: BOOL, UINT8`: {nil, "--slo=40ms --models=m --input=x:FLOAT:1"},
	} {
		_, at := newForeign(t, c.answers)
		_, _, _, err := parsed[loadCmd](t, append(strings.Fields(c.flags), "--url="+at)...).target(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, _, _, err := parsed[loadCmd](t, "--url=http://127.0.0.1:1", "--slo=40ms", "--models=m").target(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
}
