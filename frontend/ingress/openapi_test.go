package ingress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/wire"
)

// described is a document as clients read it.
type described struct {
	t     *testing.T
	tree  map[string]any
	rules *jsonschema.Compiler
	seen  map[string]bool // "METHOD pattern status"
}

// describe reads the document. In the test replies have nothing that it does not tell of: what is only allowed to be
// there by the document is not.
func describe(t *testing.T, text []byte) *described {
	t.Helper()
	d := &described{t: t, rules: jsonschema.NewCompiler(), seen: map[string]bool{}}
	if err := json.Unmarshal(text, &d.tree); err != nil {
		t.Fatal(err)
	}
	schemas := d.tree["components"].(map[string]any)["schemas"]
	closedSchemas(schemas)
	d.rules.DefaultDraft(jsonschema.Draft2020)
	if err := d.rules.AddResource("doc:///api", d.tree); err != nil {
		t.Fatal(err)
	}
	return d
}

// closedSchemas forbids properties that are not told of.
func closedSchemas(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok && v["type"] == "object" && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, child := range v {
			closedSchemas(child)
		}
	case []any:
		for _, child := range v {
			closedSchemas(child)
		}
	}
}

// at follows keys into the document, and references.
func (d *described) at(v any, keys ...string) any {
	for _, key := range keys {
		v = d.deref(v)
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return d.deref(v)
}

func (d *described) deref(v any) any {
	for {
		m, _ := v.(map[string]any)
		ref, ok := m["$ref"].(string)
		if !ok {
			return v
		}
		v = d.tree
		for _, key := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			v = v.(map[string]any)[key]
		}
		if v == nil {
			d.t.Fatalf("%s leads nowhere", ref)
		}
	}
}

// pointer escapes keys to a JSON pointer.
func pointer(keys ...string) string {
	out := ""
	for _, k := range keys {
		out += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(k)
	}
	return out
}

// validate compares JSON with a schema, which is a reference or stands where the keys lead.
func (d *described) validate(what string, schema any, body []byte, keys ...string) {
	d.t.Helper()
	where := "doc:///api#" + pointer(keys...)
	if ref, ok := schema.(map[string]any)["$ref"].(string); ok {
		where = "doc:///api" + ref
	}
	rule, err := d.rules.Compile(where)
	if err != nil {
		d.t.Fatalf("%s: %v", where, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = rule.Validate(v)
	}
	if err != nil {
		d.t.Errorf("%s: %v\n%s", what, err, body)
	}
}

// The document is what OpenAPI 3.1's own schema takes; each route is in it, and all that is in it is one.
func TestOpenAPIIsWhatIsServed(t *testing.T) {
	for _, apart := range []bool{false, true} {
		s := start(t, Config{Version: "1.2.3", MetricsApart: apart, AdminApart: apart})
		a := s.do("GET", "/v2/openapi.json", "")
		s.want(a, 200, `"version":"1.2.3"`)
		text, err := os.ReadFile("testdata/oas31-schema.json")
		if err != nil {
			t.Fatal(err)
		}
		meta, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		rules := jsonschema.NewCompiler()
		if err := rules.AddResource("doc:///oas", meta); err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		if err := rules.MustCompile("doc:///oas").Validate(v); err != nil {
			t.Error(err)
		}
		var doc struct {
			Paths map[string]map[string]json.RawMessage
		}
		if err := json.Unmarshal(a.body, &doc); err != nil {
			t.Fatal(err)
		}
		var told, served []string
		for path, methods := range doc.Paths {
			for method := range methods {
				told = append(told, strings.ToUpper(method)+" "+path)
			}
		}
		for _, r := range table() {
			if s.served(&r, mainDoor) {
				served = append(served, r.method+" "+r.pattern)
			}
		}
		slices.Sort(told)
		slices.Sort(served)
		if !slices.Equal(told, served) {
			t.Errorf("apart %v: the document has\n%s\nserved is\n%s", apart, strings.Join(told, "\n"), strings.Join(served, "\n"))
		}
	}
	var all map[string]any
	if err := json.Unmarshal(openapiText, &all); err != nil {
		t.Fatal(err)
	}
	patterns := map[string]bool{}
	for _, r := range table() {
		patterns[r.pattern] = true
	}
	for path := range all["paths"].(map[string]any) {
		if !patterns[path] {
			t.Errorf("%s is in the document, and no route", path)
		}
	}
}

// probe is a request, and what it is of the document.
type probe struct {
	method, pattern, path string
	body                  string
	headers               []string
	status                int
	err                   error // of the inference
}

// probes ask for each operation, and for its answers.
func probes() []probe {
	const m, v = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
	header := `{"id":"i","parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":[4],"datatype":"FP32","parameters":{"binary_data_size":16}}]}`
	classes := `{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]}],"outputs":[{"name":"y","parameters":{"classification":2}}],"parameters":{"priority":1,"timeout":1000,"details":true}}`
	of := func(kind error, r wire.Reason) error {
		return &frontend.Error{Kind: kind, Reason: r, Frontend: 3, Request: 9}
	}
	list := []probe{
		{"POST", m + "/infer", "/v2/models/flat/infer", flatJSON, nil, 200, nil},
		{"POST", m + "/infer", "/v2/models/flat/infer", classes, nil, 200, nil},
		{"POST", m + "/infer", "/v2/models/echo-UINT8/infer", twoItems, nil, 200, nil},
		{"POST", m + "/infer", "/v2/models/flat/infer", header + strings.Repeat("\x00", 16), []string{headerLength, strconv.Itoa(len(header))}, 200, nil},
		{"POST", m + "/infer", "/v2/models/flat/infer", strings.Repeat("\x00", 16), []string{headerLength, "0"}, 200, nil},
		{"POST", m + "/infer", "/v2/models/flat/infer", "{", nil, 400, nil},
		{"POST", m + "/infer", "/v2/models/nobody/infer", flatJSON, nil, 404, nil},
		{"POST", m + "/infer", "/v2/models/flat/infer", flatJSON, nil, 429, of(frontend.ErrOverloaded, wire.ReasonFull)},
		{"POST", m + "/infer", "/v2/models/flat/infer", flatJSON, nil, 429, of(frontend.ErrDropped, wire.ReasonShed)},
		{"POST", m + "/infer", "/v2/models/flat/infer", flatJSON, nil, 499, of(frontend.ErrCancelled, wire.ReasonCancelled)},
		{"POST", m + "/infer", "/v2/models/flat/infer", flatJSON, nil, 500, of(frontend.ErrFailed, wire.ReasonExecution)},
		{"POST", m + "/infer", "/v2/models/flat/infer", flatJSON, nil, 503, of(frontend.ErrUnavailable, wire.ReasonUnavailable)},
		{"POST", m + "/infer", "/v2/models/flat/infer", flatJSON, nil, 503, of(frontend.ErrDropped, wire.ReasonDeadline)},
		{"POST", v + "/infer", "/v2/models/two/versions/0/infer", `{"inputs":[{"name":"a","shape":[2],"datatype":"INT32","data":[1,2]},{"name":"b","shape":[1],"datatype":"UINT8","data":[1]}]}`, nil, 200, nil},
		{"POST", "/v1/classify/{model}", "/v1/classify/digits?k=2&details=1", "\x89PNG", []string{"Content-Type", "image/png"}, 200, nil},
		{"POST", "/v1/classify/{model}", "/v1/classify/digits", "--b--", []string{"Content-Type", "multipart/form-data; boundary=b"}, 415, nil},
		{"POST", "/v1/classify/{model}/versions/{version}", "/v1/classify/digits/versions/1", "\x89PNG", []string{"Content-Type", "image/png"}, 200, nil},
		{"GET", m + "/ready", "/v2/models/down/ready", "", nil, 503, nil},
		{"GET", m, "/v2/models/nobody", "", nil, 404, nil},
		{"POST", "/v2/repository/index", "/v2/repository/index", `{"ready":true}`, nil, 200, nil},
		{"POST", "/v2/repository/index", "/v2/repository/index", `{"ready":1}`, nil, 400, nil},
		{"POST", "/v2/repository/models/{model}/load", "/v2/repository/models/digits/load", `{"parameters":{}}`, nil, 200, nil},
		{"POST", "/v2/repository/models/{model}/load", "/v2/repository/models/down/load", "", nil, 400, nil},
		{"POST", "/v2/repository/models/{model}/unload", "/v2/repository/models/digits/unload", "", nil, 501, nil},
	}
	for _, rest := range []string{"", "/ready", "/config", "/stats"} {
		list = append(list, probe{"GET", m + rest, "/v2/models/digits" + rest, "", nil, 200, nil}, probe{"GET", v + rest, "/v2/models/digits/versions/1" + rest, "", nil, 200, nil})
	}
	for _, path := range []string{"/", "/metrics", "/v2", "/v2/openapi.json", "/v2/health/live", "/v2/health/ready", "/v2/models/stats", "/v2/logging", "/v2/trace/setting"} {
		list = append(list, probe{"GET", path, path, "", nil, 200, nil})
	}
	return append(append(list, settingProbes(m)...), regionProbes()...)
}

// settingProbes ask for settings, and for changes of them.
func settingProbes(model string) []probe {
	list := []probe{
		{"GET", model + "/trace/setting", "/v2/models/digits/trace/setting", "", nil, 200, nil},
		{"GET", model + "/trace/setting", "/v2/models/nobody/trace/setting", "", nil, 404, nil},
		{"POST", model + "/trace/setting", "/v2/models/nobody/trace/setting", "{}", nil, 404, nil},
	}
	for _, of := range []struct{ pattern, path, change string }{
		{"/v2/logging", "/v2/logging", `{"log_verbose_level":1}`},
		{"/v2/trace/setting", "/v2/trace/setting", `{"trace_rate":"1"}`},
		{model + "/trace/setting", "/v2/models/digits/trace/setting", `{"trace_rate":"1"}`},
	} {
		for body, status := range map[string]int{"": 200, "{}": 200, of.change: 501, `{"unheard":1}`: 400, "[": 400, strings.Repeat(" ", orderMax+1): 413} {
			list = append(list, probe{"POST", of.pattern, of.path, body, nil, status, nil})
		}
	}
	return list
}

func regionProbes() []probe {
	const system, cuda = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
	key := fmt.Sprintf("/symphony-openapi-%d", os.Getpid())
	order := fmt.Sprintf(`{"key":%q,"byte_size":64}`, key)
	return []probe{
		{"POST", system + "/region/{name}/register", system + "/region/r/register", order, nil, 200, nil},
		{"POST", system + "/region/{name}/register", system + "/region/r/register", order, nil, 409, nil},
		{"POST", system + "/region/{name}/register", system + "/region/q/register", `{}`, nil, 400, nil},
		{"GET", system + "/status", system + "/status", "", nil, 200, nil},
		{"GET", system + "/region/{name}/status", system + "/region/r/status", "", nil, 200, nil},
		{"GET", system + "/region/{name}/status", system + "/region/q/status", "", nil, 404, nil},
		{"POST", system + "/region/{name}/unregister", system + "/region/r/unregister", "", nil, 200, nil},
		{"POST", system + "/unregister", system + "/unregister", "", nil, 200, nil},
		{"GET", cuda + "/status", cuda + "/status", "", nil, 200, nil},
		{"GET", cuda + "/region/{name}/status", cuda + "/region/r/status", "", nil, 400, nil},
		{"POST", cuda + "/region/{name}/register", cuda + "/region/r/register", "{}", nil, 501, nil},
		{"POST", cuda + "/region/{name}/unregister", cuda + "/region/r/unregister", "", nil, 200, nil},
		{"POST", cuda + "/unregister", cuda + "/unregister", "", nil, 200, nil},
	}
}

// Each operation is asked, and answers as the document says: by a status, headers, a media type and a body that it
// has; and what is asked with success is what it takes.
func TestOpenAPIIsWhatIsAnswered(t *testing.T) {
	s := start(t, Config{SharedMemory: true})
	object := fmt.Sprintf("/dev/shm/symphony-openapi-%d", os.Getpid())
	if err := os.WriteFile(object, make([]byte, 64), 0o600); err != nil {
		t.Skip(err) // no shared memory here
	}
	t.Cleanup(func() { os.Remove(object) })
	d := describe(t, s.do("GET", "/v2/openapi.json", "").body)
	for _, p := range probes() {
		s.fake.failWith(nil)
		if p.err != nil {
			s.fake.failWith(func(frontend.Request) error { return p.err })
		}
		d.check(&p, s.do(p.method, p.path, p.body, p.headers...))
	}
	for path, methods := range d.tree["paths"].(map[string]any) {
		for method, operation := range methods.(map[string]any) {
			for status := range operation.(map[string]any)["responses"].(map[string]any) {
				what := strings.ToUpper(method) + " " + path + " "
				if status == "200" && !d.seen[what+status] && !(strings.HasSuffix(path, "/unload")) {
					t.Errorf("%s%s was not answered", what, status)
				}
				if !slices.ContainsFunc(slices.Collect(maps.Keys(d.seen)), func(k string) bool { return strings.HasPrefix(k, what) }) {
					t.Errorf("%swas not asked", what)
				}
			}
		}
	}
}

// check compares an answer with the document.
func (d *described) check(p *probe, a answer) {
	d.t.Helper()
	what := p.method + " " + p.path
	if a.status != p.status {
		d.t.Errorf("%s: %d %s, want %d", what, a.status, a.body, p.status)
	}
	method, status := strings.ToLower(p.method), strconv.Itoa(a.status)
	response, ok := d.at(d.tree, "paths", p.pattern, method, "responses", status).(map[string]any)
	if !ok {
		d.t.Errorf("%s: its answer %d is not in the document", what, a.status)
		return
	}
	d.seen[p.method+" "+p.pattern+" "+status] = true
	headers, _ := response["headers"].(map[string]any)
	for name := range a.header {
		if slices.Contains([]string{"Content-Length", "Content-Type", "Date", "Server"}, name) {
			continue
		}
		schema, ok := d.at(headers, name, "schema").(map[string]any)
		if !ok {
			d.t.Errorf("%s: the header %s is not in the document", what, name)
		} else if value := a.header.Get(name); schema["type"] == "integer" {
			d.validate(what+": "+name, schema, []byte(value), "components", "headers", name, "schema")
		} else {
			quoted, _ := json.Marshal(value)
			d.validate(what+": "+name, schema, quoted, "components", "headers", name, "schema")
		}
	}
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	content, ok := d.at(response, "content", media).(map[string]any)
	if !ok {
		d.t.Errorf("%s: %s is not in the document", what, media)
		return
	}
	if schema, ok := content["schema"]; ok {
		keys := []string{"paths", p.pattern, method, "responses", status, "content", media, "schema"}
		d.validate(what, schema, a.body, keys...)
	} else if n, err := strconv.Atoi(a.header.Get(headerLength)); err == nil {
		d.validate(what, map[string]any{"$ref": "#/components/schemas/InferReply"}, a.body[:n])
	}
	if a.status == 200 && strings.HasPrefix(p.body, "{") {
		body := []byte(p.body)
		if len(p.headers) > 1 && p.headers[0] == headerLength {
			n, _ := strconv.Atoi(p.headers[1])
			body = body[:n]
		}
		schema := d.at(d.tree, "paths", p.pattern, method, "requestBody", "content", "application/json").(map[string]any)["schema"]
		d.validate(what+": request", schema, body)
	}
}
