package zoo

import (
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestTables(t *testing.T) {
	if n := len(A100()); n != 37 {
		t.Errorf("A100: %d models, Table 4 has 37", n)
	}
	if n := len(GTX1080Ti()); n != 35 {
		t.Errorf("1080Ti: %d models, Table 3 has 35", n)
	}
	want := Model{Name: "ResNet50", Alpha: 268 * mono.Microsecond, Beta: 5172 * mono.Microsecond, SLO: 20 * mono.Millisecond}
	found := false
	for _, m := range A100() {
		found = found || m == want
	}
	if !found {
		t.Errorf("A100 lacks %v", want)
	}
}

// TestEveryModelCanBeServed: a digit lost in copying would show here.
func TestEveryModelCanBeServed(t *testing.T) {
	for _, m := range append(A100(), GTX1080Ti()...) {
		if 2*(m.Alpha+m.Beta) > m.SLO+m.SLO/10 {
			t.Errorf("%v: even batches of one leave no time to wait", m)
		}
	}
}

func TestStringIsParsed(t *testing.T) {
	for _, m := range append(A100(), GTX1080Ti()...) {
		if back, err := Parse(m.String()); err != nil || back != m {
			t.Errorf("%v was read as %v, %v", m, back, err)
		}
	}
}

func TestRefused(t *testing.T) {
	const head = "model,alpha_ms,beta_ms,slo_ms\n"
	for _, c := range []struct{ text, want string }{
		{"", "no models"},
		{head, "x.csv:2: no models"},
		{"model,alpha,beta,slo\nA,1,2,20\n", "x.csv:1: header"},
		{"model,alpha_ms,beta_ms,slo_ms,weight\nA,1,2,20,1\n", "x.csv:1: header"},
		{head + "A,1,2,20\n\nB,1,2,20\n", "x.csv:3: blank line"},
		{head + "A,1,2,20\n ", "x.csv:3: blank line"},
		{head + "A,1,2,20\nB,1,2\n", "x.csv:3: 3 columns"},
		{head + "A,1,2,20,5\n", "x.csv:2: 5 columns"},
		{head + "A,1,2,20\nB,1,2,20\nA,1,3,20\n", `x.csv:4: model "A" is in line 2`},
		{head + "A,one,2,20\n", `x.csv:2: column 2: alpha_ms "one"`},
		{head + "A,1,-2,20\n", `x.csv:2: column 3: beta_ms "-2"`},
		{head + "A,1,2,NaN\n", `x.csv:2: column 4: slo_ms "NaN"`},
		{head + "A,1,2,1e9\n", `slo_ms "1e9"`},
		{head + "A,0,0,20\n", "x.csv:2: model A: alpha"},
		{head + "A,1,2,0\n", "x.csv:2: model A: SLO"},
		{head + ",1,2,20\n", "x.csv:2: the model has no name"},
		{head + "\"A\",1,2,20\n", "no colon, comma, quote"},
	} {
		_, err := Read(strings.NewReader(c.text), "x.csv")
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "A", "A:1:2", "A:1:2:20:3", ":1:2:20", "A:x:2:20", "A:1:2:-1", "A:1:2:Inf", "A:0:0:20"} {
		if m, err := Parse(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q was read as %v, %v", text, m, err)
		}
	}
}

// Every model of either table has a size, and ResNet50 that of its file (examples/zoo).
func TestMemory(t *testing.T) {
	for _, m := range append(A100(), GTX1080Ti()...) {
		k, ok := MemoryOf(m)
		if !ok || k.Static < 10e6 || k.Static > 600e6 || k.Dynamic < 100e6 || k.Dynamic > 1500e6 {
			t.Errorf("%s: %+v, %v", m.Name, k, ok)
		}
		if m.Name == "ResNet50" && k.Static/1e6 != 102 {
			t.Errorf("ResNet50 takes %d MB, its file has 102", k.Static/1e6)
		}
	}
	if k, ok := MemoryOf(Model{Name: "model"}); ok {
		t.Errorf("the header is no model: %+v", k)
	}
}
