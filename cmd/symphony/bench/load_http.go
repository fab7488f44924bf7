package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// What a server of the Open Inference Protocol (V2) must tell: a model's inputs, unless
// --input does. All else may lack: the list of models (--models names them), the model's
// configuration with slo_ms (--slo), the extension for binary tensors (JSON is sent).

// httpTarget finds the models behind --url.
func (c loadCmd) httpTarget() (load.Target, []askedModel, func(), error) {
	at := serverURL(c.URL)
	given, err := parseInputs(c.Input)
	if err != nil {
		return nil, nil, nil, err
	}
	names, err := httpNames(at, c.Models)
	if err != nil {
		return nil, nil, nil, err
	}
	var asked []askedModel
	var inputs []load.ModelInput
	for i, name := range names {
		m := askedModel{name, mono.Dur(c.SLO)}
		if m.slo == 0 {
			if m.slo, err = httpSLO(at, name); err != nil {
				return nil, nil, nil, err
			}
		}
		tensors := given
		if len(tensors) == 0 {
			if tensors, err = httpInputs(at, name); err != nil {
				return nil, nil, nil, fmt.Errorf("model %s: %w", name, err)
			}
		}
		asked = append(asked, m)
		inputs = append(inputs, load.MakeInputAs(name, tensors, uint64(i)))
	}
	binary, err := httpBinary(at)
	if err != nil {
		return nil, nil, nil, err
	}
	t, err := load.NewHTTPTarget(load.HTTPOptions{URL: at, Senders: c.Senders, Binary: binary}, inputs)
	if err != nil {
		return nil, nil, nil, err
	}
	return t, asked, t.Close, nil
}

// serverURL is the server's address without what the protocol's paths begin with, which
// many write after it.
func serverURL(at string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(at, "/"), "/v2"), "/")
}

// replyError is an answer that is not what was asked for.
type replyError struct{ asked, said string }

func (e *replyError) Error() string { return e.asked + ": " + e.said }

// fetch gets or posts and reads JSON into v.
func fetch(method, at string, v any) error {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader("{}") // some want an object
	}
	req, err := http.NewRequest(method, at, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return &replyError{method + " " + at, resp.Status + ": " + beginning(text)}
	}
	if err := json.Unmarshal(text, v); err != nil {
		return &replyError{method + " " + at, fmt.Sprintf("%v in: %s", err, beginning(text))}
	}
	return nil
}

// beginning is what fits into an error.
func beginning(text []byte) string {
	return strings.Join(strings.Fields(string(text[:min(len(text), 300)])), " ")
}

// httpNames are the ready models that the patterns mean.
func httpNames(at string, patterns []string) ([]string, error) {
	all, err := httpList(at)
	if _, ok := errors.AsType[*replyError](err); ok {
		if slices.ContainsFunc(patterns, func(p string) bool { return strings.HasSuffix(p, "*") }) {
			return nil, fmt.Errorf("the server does not list its models, name them with --models: %w", err)
		}
		return patterns, nil
	}
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !wanted(name, patterns) })
	if len(names) == 0 {
		return nil, fmt.Errorf("no ready model matches %v; ready are %v", patterns, all)
	}
	return names, nil
}

// httpList are the ready models, each once, however many versions there are.
func httpList(at string) ([]string, error) {
	var index []struct{ Name, State string }
	err := fetch("POST", at+"/v2/repository/index", &index)
	if _, ok := errors.AsType[*replyError](err); ok { // KServe's way
		var list struct{ Models []string }
		if e := fetch("GET", at+"/v2/models", &list); e == nil && len(list.Models) > 0 {
			return list.Models, nil
		}
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range index {
		if (m.State == "READY" || m.State == "") && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names, nil
}

// httpBinary tells whether the server takes binary tensors.
func httpBinary(at string) (bool, error) {
	var meta struct{ Extensions []string }
	err := fetch("GET", at+"/v2", &meta)
	if _, ok := errors.AsType[*replyError](err); ok {
		return false, nil
	}
	return slices.Contains(meta.Extensions, "binary_tensor_data"), err
}

// httpSLO is slo_ms of the model's configuration.
func httpSLO(at, name string) (mono.Dur, error) {
	var cfg struct{ Parameters map[string]json.RawMessage }
	err := fetch("GET", at+"/v2/models/"+url.PathEscape(name)+"/config", &cfg)
	if _, ok := errors.AsType[*replyError](err); err != nil && !ok {
		return 0, err
	}
	var p struct {
		StringValue string `json:"string_value"`
	}
	_ = json.Unmarshal(cfg.Parameters["slo_ms"], &p) // what is no such object names none
	ms, err := strconv.ParseFloat(p.StringValue, 64)
	if err != nil || !(ms > 0) {
		return 0, fmt.Errorf("model %s: the server names no slo_ms in its configuration: give --slo", name)
	}
	return mono.FromMillis(ms), nil
}

// httpInputs are the model's inputs by its metadata. A dimension that is open (-1), be it
// of the batch or of the item, is sent as 1.
func httpInputs(at, name string) ([]catalog.TensorSpec, error) {
	var meta struct {
		Inputs []struct {
			Name, Datatype string
			Shape          []int64
		}
	}
	if err := fetch("GET", at+"/v2/models/"+url.PathEscape(name), &meta); err != nil {
		return nil, fmt.Errorf("%w; --input NAME:TYPE:SHAPE does without its metadata", err)
	}
	if len(meta.Inputs) == 0 {
		return nil, errors.New("its metadata names no inputs: give --input NAME:TYPE:SHAPE")
	}
	var out []catalog.TensorSpec
	for _, in := range meta.Inputs {
		t := catalog.TensorSpec{Name: in.Name, Type: catalog.DataType(in.Datatype), Shape: []int64{}}
		for _, d := range in.Shape {
			if d < 0 {
				d = 1
			}
			t.Shape = append(t.Shape, d)
		}
		if err := checkTensor(t); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// parseInputs reads --input. (A name may have colons: TensorFlow's have.)
func parseInputs(flags []string) ([]catalog.TensorSpec, error) {
	var out []catalog.TensorSpec
	for _, f := range flags {
		parts := strings.Split(f, ":")
		if len(parts) < 3 {
			return nil, fmt.Errorf("--input %q: write NAME:TYPE:SHAPE, for example x:FP32:1x784", f)
		}
		n := len(parts)
		t := catalog.TensorSpec{Name: strings.Join(parts[:n-2], ":"), Type: catalog.DataType(strings.ToUpper(parts[n-2]))}
		for d := range strings.SplitSeq(parts[n-1], "x") {
			v, err := strconv.ParseInt(d, 10, 64)
			if err != nil || v < 1 {
				return nil, fmt.Errorf("--input %q: %q is no dimension; write NAME:TYPE:SHAPE, for example x:FP32:1x784", f, d)
			}
			t.Shape = append(t.Shape, v)
		}
		if err := checkTensor(t); err != nil {
			return nil, fmt.Errorf("--input %q: %w", f, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// checkTensor refuses what cannot be made.
func checkTensor(t catalog.TensorSpec) error {
	if t.Type.Size() < 0 {
		return fmt.Errorf("input %s is of %q, which is no type that can be made here: BOOL, UINT8 to UINT64, INT8 to INT64, FP16, FP32, FP64, BYTES", t.Name, t.Type)
	}
	size := int64(max(1, t.Type.Size()))
	for _, d := range t.Shape {
		if d > arena.Largest/size {
			return fmt.Errorf("input %s of shape %v is larger than %d bytes", t.Name, t.Shape, arena.Largest)
		}
		size *= max(1, d)
	}
	return nil
}

// printComplaints shows what failed in the server's words.
func printComplaints(to io.Writer, all map[string]string) {
	for _, reason := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(to, "%s, the first: %s\n", reason, all[reason])
	}
}
