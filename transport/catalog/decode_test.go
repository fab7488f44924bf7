package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/wire"
)

// large is a list of so many models.
func large(models int) ModelList {
	var l ModelList
	for m := range models {
		l.Models = append(l.Models, ModelSpec{Name: fmt.Sprintf("model-%04d", m), Version: "1", Platform: "emulated", SLO: 5, MaxBatch: 4, Profile: Profile{Alpha: 1, Beta: 2},
			LabelsID: DigestOf([]byte{byte(m)}),
			Inputs:   []TensorSpec{{Name: "input", Type: FP32, Shape: []int64{3, 224, 224}}},
			Outputs:  []TensorSpec{{Name: "scores", Type: FP32, Shape: []int64{1000}}}})
	}
	return l
}

// What may be said is decoded as it was meant.
func TestDecode(t *testing.T) {
	for _, in := range []ModelList{{}, large(1), large(ModelsMax)} {
		survives(t, in, DecodeModels)
	}
	survives(t, BackendInfo{Name: "b", Instance: 7, Configured: 8, Pools: []Pool{{DeviceType: "cpu", Devices: 8, Models: DigestOf(nil)}}}, DecodeBackendInfo)
	paged := Pool{DeviceType: "v100", Devices: 3, Strict: true, Paged: &Paged{Page: 16 << 20, Pages: 1376, Workspace: 512 << 20, IO: 512 << 20},
		Held: [][]HeldModel{{{"a/1", 7}, {"b/1", 1 << 31}}, nil, {{"a/1", 1}}}}
	survives(t, BackendInfo{Name: "b", Pools: []Pool{paged}}, DecodeBackendInfo)
	survives(t, Held{Pool: 1, Device: 2, Models: paged.Held[0]}, DecodeHeld)
	survives(t, Changes{Epoch: 3, Since: 4, Serial: 5, More: true, Pools: []PoolState{{DeviceType: "cpu", GPUs: 2}}, Gone: []wire.ModelID{4},
		Models: []Served{{ID: 1, DeviceType: "cpu", Spec: large(1).Models[0]}}}, DecodeChanges)
	survives(t, Want{Labels: DigestOf(nil)}, DecodeWant)
	survives(t, Bound{Pool: 1, IDs: []wire.ModelID{3, 1}}, DecodeBound)
	survives(t, Admitted{Epoch: 5, Error: "no"}, DecodeAdmitted)
	slo := int64(5)
	survives(t, Keep{Pool: 1, Device: 2, In: "a", Load: []Source{{Name: "m", Version: "1", URL: "file:///m", Profile: &Profile{Alpha: 1}}}, Unload: []string{"m/0"}}, DecodeKeep)
	survives(t, Stock{Pool: 1, Models: []Stocked{{Slot: 3, Key: "m/1", State: StateReady, Devices: []int{0, 2}, Spec: &large(1).Models[0],
		Files: Files{Digest: DigestOf(nil), Bytes: 7, Own: &Settings{SLO: &slo}}}}}, DecodeStock)
	survives(t, BackendInfo{Name: "b", Pools: []Pool{{DeviceType: "cpu", Ordered: []int{3, 5}, Brought: []Files{{Digest: DigestOf(nil)}, {}}}}}, DecodeBackendInfo)
	survives(t, Order{ID: 1, Kind: OrderSet, Keys: []string{"m/1"}, Settings: &Settings{SLO: &slo}, Names: []Name{{Name: "m", Shares: []Share{{"1", 9}, {"2", 1}}}}}, DecodeOrder)
	survives(t, Outcome{ID: 1, Error: "no room"}, DecodeOutcome)
	survives(t, Facts{Epoch: 1, Whole: true, GPUs: []GPUFacts{{Name: "b/cpu/0", State: GPUServing}}, Models: []ModelFacts{{Key: "m/1", Rate: 2.5, Set: &Settings{SLO: &slo}}}}, DecodeFacts)
	survives(t, []string{"a label, with \"quotes\" and [brackets]", "b"}, DecodeLabels)
	if _, err := DecodeFrontendInfo([]byte(`{"name":"f","address":"tcp:h:1","later":{"unknown":[1,"x"]}}`)); err != nil {
		t.Error(err)
	}
}

func survives[T any](t *testing.T, in T, decode func([]byte) (T, error)) {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := decode(text); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%.200s became %.200v, %v", text, out, err)
	}
}

// hostile are model lists that would take far more memory than their bytes, or
// time, or what no request can bring.
func hostile() map[string]string {
	model := func(rest string) string {
		return `{"models":[{"name":"m","version":"1",` + rest + `}]}`
	}
	many := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	return map[string]string{
		"millions of models":         `{"models":[` + many("{}", 4<<20) + `]}`,
		"models over many lists":     `[` + many(`{"models":[`+many("{}", 2000)+`]}`, 3) + `]`,
		"many pools":                 `{"pools":[` + many(`{}`, 1<<20) + `]}`,
		"many tensors":               model(`"inputs":[` + many("{}", 1<<20) + `]`),
		"many tensors over models":   `{"models":[` + many(`{"inputs":[`+many("{}", 60)+`]}`, 2000) + `]}`,
		"a bomb of brackets":         strings.Repeat("[", 8<<20),
		"a bomb of objects":          strings.Repeat(`{"a":`, 2<<20),
		"a bomb below an unknown":    `{"name":"b","later":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
		"a long name":                model(`"platform":"` + strings.Repeat("x", 1<<20) + `"`),
		"a long digest":              model(`"labels":"` + strings.Repeat("x", 1<<20) + `"`),
		"a million labels":           `[` + many(`""`, 1<<20) + `]`,
		"many dimensions":            model(`"inputs":[{"name":"x","type":"FP32","shape":[` + many("1", 1<<20) + `]}]`),
		"huge dimensions":            model(`"inputs":[{"name":"x","type":"FP32","shape":[4611686018427387904,4]}]`),
		"a dimension of 0":           model(`"inputs":[{"name":"x","type":"FP32","shape":[0]}]`),
		"a type that is none":        model(`"outputs":[{"name":"x","type":"FLOAT","shape":[1]}]`),
		"a long profile":             model(`"profile":{"table_ns":[` + many("1", 1<<20) + `]}`),
		"keys in capitals":           `{"MODELS":[` + many("{}", 1<<20) + `]}`,
		"escaped keys":               `{"model\u0073":[` + many("{}", 1<<20) + `]}`,
		"keys that fold":             `{"model` + "\u017f" + `":[` + many("{}", 1<<20) + `]}`,
		"a long key":                 `{"` + strings.Repeat("k", 1<<20) + `":1}`,
		"a digest of files":          `{"digest":"` + strings.Repeat("0", 65) + `"}`,
		"files of many models":       `{"pools":[{"brought":[` + many("{}", 1<<20) + `]}]}`,
		"no JSON":                    strings.Repeat("\x00\xff", 1<<10),
		"a string without an end":    `{"name":"` + strings.Repeat(`\"`, 100),
		"brackets that do not match": `{"pools":[}]}]}]}`,
		"another type":               `{"models":7}`,
		"models on many devices":     `{"pools":[{"held":[` + many(`[`+many("{}", 4000)+`]`, 100) + `]}]}`,
		"models on one device":       `{"pools":[{"held":[[` + many("{}", 1<<20) + `]]}]}`,
	}
}

// Hostile documents are refused with a reason, and cost little more than their bytes.
func TestDecodeRefuses(t *testing.T) {
	for what, text := range hostile() {
		data := []byte(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeModels(data)
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

// What a backend says of files is checked before anybody counts on it.
func TestDecodeFiles(t *testing.T) {
	for _, files := range []string{`"digest":"0123"`, `"digest":"../../../../../../../../etc/pass"`, `"bytes":-1`} {
		if s, err := DecodeStock([]byte(`{"models":[{"key":"m/1",` + files + `}]}`)); err == nil {
			t.Errorf("%s is taken: %+v", files, s)
		}
		if b, err := DecodeBackendInfo([]byte(`{"pools":[{"brought":[{` + files + `}]}]}`)); err == nil {
			t.Errorf("%s is taken: %+v", files, b)
		}
	}
}

// The largest document of each kind takes a small multiple of its bytes.
func TestDecodeMemory(t *testing.T) {
	for what, text := range map[string]string{
		"tensors": `{"models":[` + strings.TrimSuffix(strings.Repeat(`{"inputs":[{},{}],"outputs":[{},{}]},`, ModelsMax), ",") + `]}`,
		"shapes":  `{"models":[` + strings.TrimSuffix(strings.Repeat(`{"inputs":[{"shape":[1,1,1,1]}]},`, ModelsMax), ",") + `]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var v ModelList
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
	text, _ := json.Marshal(large(2))
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = DecodeModels(data) // it ends, and panics at nothing
		if n := testing.AllocsPerRun(1, func() { _ = Weigh(data) }); n > 20 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkWeigh(b *testing.B) {
	text, _ := json.Marshal(large(1000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := Weigh(text); err != nil {
			b.Fatal(err)
		}
	}
}
