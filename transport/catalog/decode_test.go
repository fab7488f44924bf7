package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// large is what a backend of so many models says, with labels each.
func large(models, labels int) BackendInfo {
	p := Pool{DeviceType: "cpu", Devices: 8}
	for m := range models {
		s := ModelSpec{Name: fmt.Sprintf("model-%04d", m), Version: "1", Platform: "emulated", SLO: 5, MaxBatch: 4, Profile: Profile{Alpha: 1, Beta: 2},
			Inputs:  []TensorSpec{{Name: "input", Type: FP32, Shape: []int64{3, 224, 224}}},
			Outputs: []TensorSpec{{Name: "scores", Type: FP32, Shape: []int64{1000}}}}
		for l := range labels {
			s.Labels = append(s.Labels, fmt.Sprintf("a label, with \"quotes\" and [brackets], %d", l))
		}
		p.Models = append(p.Models, s)
	}
	return BackendInfo{Name: "b", Pools: []Pool{p}}
}

// What may be said is decoded as it was meant.
func TestDecode(t *testing.T) {
	for _, in := range []BackendInfo{{}, large(1, 0), large(3, 1000), large(ModelsMax, 0)} {
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := DecodeBackendInfo(text)
		if err != nil || !reflect.DeepEqual(in, out) {
			t.Errorf("%.200s: %v", text, err)
		}
	}
	if _, err := DecodeFrontendInfo([]byte(`{"name":"f","address":"tcp:h:1","later":{"unknown":[1,"x"]}}`)); err != nil {
		t.Error(err)
	}
	in := Catalogue{Epoch: 3, Serial: 4, Entries: []Entry{{ID: 1, DeviceType: "cpu", Ready: true, GPUs: 2, Spec: large(1, 5).Pools[0].Models[0]}}}
	text, _ := json.Marshal(in)
	if out, err := DecodeCatalogue(text); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%s became %+v, %v", text, out, err)
	}
	if out, err := DecodeAdmitted([]byte(`{"epoch":5,"error":"no"}`)); err != nil || out.Epoch != 5 || out.Error != "no" {
		t.Errorf("%+v, %v", out, err)
	}
}

// hostile are backends' documents that would take far more memory than their bytes, or
// time, or what no request can bring.
func hostile() map[string]string {
	model := func(rest string) string {
		return `{"name":"b","pools":[{"device_type":"cpu","devices":1,"models":[{"name":"m","version":"1",` + rest + `}]}]}`
	}
	many := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	return map[string]string{
		"millions of models":         `{"pools":[{"models":[` + many("{}", 4<<20) + `]}]}`,
		"models over many pools":     `{"pools":[` + many(`{"models":[`+many("{}", 2000)+`]}`, 3) + `]}`,
		"many pools":                 `{"pools":[` + many(`{}`, 1<<20) + `]}`,
		"many tensors":               model(`"inputs":[` + many("{}", 1<<20) + `]`),
		"many tensors over models":   `{"pools":[{"models":[` + many(`{"inputs":[`+many("{}", 60)+`]}`, 2000) + `]}]}`,
		"a bomb of brackets":         strings.Repeat("[", 8<<20),
		"a bomb of objects":          strings.Repeat(`{"a":`, 2<<20),
		"a bomb below an unknown":    `{"name":"b","later":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
		"a long name":                model(`"platform":"` + strings.Repeat("x", 1<<20) + `"`),
		"a long label":               model(`"labels":["` + strings.Repeat("x", 1<<20) + `"]`),
		"a million labels":           model(`"labels":[` + many(`""`, 1<<20) + `]`),
		"many dimensions":            model(`"inputs":[{"name":"x","type":"FP32","shape":[` + many("1", 1<<20) + `]}]`),
		"huge dimensions":            model(`"inputs":[{"name":"x","type":"FP32","shape":[4611686018427387904,4]}]`),
		"a dimension of 0":           model(`"inputs":[{"name":"x","type":"FP32","shape":[0]}]`),
		"a type that is none":        model(`"outputs":[{"name":"x","type":"FLOAT","shape":[1]}]`),
		"a long profile":             model(`"profile":{"table_ns":[` + many("1", 1<<20) + `]}`),
		"keys in capitals":           `{"POOLS":[{"MODELS":[` + many("{}", 1<<20) + `]}]}`,
		"escaped keys":               `{"pools":[{"model\u0073":[` + many("{}", 1<<20) + `]}]}`,
		"keys that fold":             `{"pools":[{"model` + "\u017f" + `":[` + many("{}", 1<<20) + `]}]}`,
		"a long key":                 `{"` + strings.Repeat("k", 1<<20) + `":1}`,
		"no JSON":                    strings.Repeat("\x00\xff", 1<<10),
		"a string without an end":    `{"name":"` + strings.Repeat(`\"`, 100),
		"brackets that do not match": `{"pools":[}]}]}]}`,
		"another type":               `{"pools":{"models":7}}`,
	}
}

// Hostile documents are refused with a reason, and cost little more than their bytes.
func TestDecodeRefuses(t *testing.T) {
	for what, text := range hostile() {
		data := []byte(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeBackendInfo(data)
		runtime.ReadMemStats(&after)
		if err == nil || len(err.Error()) > 400 {
			t.Errorf("%s: %.500v", what, err)
		}
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(4*len(data)+1<<16); took > most {
			t.Errorf("%s: %d bytes of JSON took %d in memory", what, len(data), took)
		}
		if errors.Is(err, ErrLimit) {
			t.Logf("%s: %v", what, err)
		}
	}
}

// The largest document of each kind takes a small multiple of its bytes.
func TestDecodeMemory(t *testing.T) {
	for what, text := range map[string]string{
		"tensors": `{"pools":[{"models":[` + strings.TrimSuffix(strings.Repeat(`{"inputs":[{},{}],"outputs":[{},{}]},`, ModelsMax), ",") + `]}]}`,
		"labels":  `{"pools":[{"models":[{"labels":[` + strings.TrimSuffix(strings.Repeat(`"",`, labelsMax), ",") + `]}]}]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var v BackendInfo
		err := Weigh([]byte(text))
		if err == nil {
			err = json.Unmarshal([]byte(text), &v)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > uint64(64*len(text)) {
			t.Errorf("%s: %d bytes took %d, %v", what, len(text), took, err)
		}
	}
}

func FuzzWeigh(f *testing.F) {
	for what, text := range hostile() {
		if len(text) < 1<<16 {
			f.Add([]byte(text))
		} else {
			f.Log(what, "is too long for a seed")
		}
	}
	text, _ := json.Marshal(large(2, 3))
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = DecodeBackendInfo(data) // it ends, and panics at nothing
		if n := testing.AllocsPerRun(1, func() { _ = Weigh(data) }); n > 20 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkWeigh(b *testing.B) {
	text, _ := json.Marshal(large(1000, 100))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := Weigh(text); err != nil {
			b.Fatal(err)
		}
	}
}
