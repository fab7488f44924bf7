package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/httpbench"
)

// A whole run, with the load and the echo in processes of their own: every reply is a
// 200, and the report is whole as text and as JSON.
func TestHTTPSpeed(t *testing.T) {
	t.Setenv(beMain, "1")
	c := parsed[httpCmd](t, "--connections=16", "--rounds=2", "--span=300ms", "--quiet")
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	r, err := c.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Ways) != 4 || r.Rounds != 2 || r.Interrupted {
		t.Fatalf("result %+v", r)
	}
	for _, w := range r.Ways {
		ok, late := int64(0), w.Refused[503]+w.Refused[429] // a pause of the machine makes some late, and others shed
		for _, l := range w.Loads {
			ok += l.OK
		}
		delete(w.Refused, 503)
		delete(w.Refused, 429)
		if w.Rate.Min <= 0 || len(w.Refused) > 0 || late > ok/10 || w.CPU.Median <= 0 {
			t.Errorf("%s %s: %+v", w.Name, w.Server, w)
		}
	}
	rep := &httpReport{provenance: newProvenance(), Result: r}
	file := filepath.Join(t.TempDir(), "http.json")
	var out bytes.Buffer
	if err := rep.show(&out, file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var back httpReport
	if err := json.Unmarshal(text, &back); err != nil || len(back.Ways) != 4 || len(back.Ways[3].Loads) != 2 {
		t.Errorf("JSON: %v, %s", err, text)
	}
	if !strings.Contains(out.String(), "of echo") {
		t.Errorf("printed\n%s", out.String())
	}
}

// An interrupted run ends its processes, soon.
func TestHTTPSpeedInterrupted(t *testing.T) {
	t.Setenv(beMain, "1")
	c := parsed[httpCmd](t, "--connections=4", "--span=1h", "--quiet", "--only=json")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if r, err := c.measure(ctx); !errors.Is(err, httpbench.ErrNothing) {
		t.Errorf("result %+v, error %v", r, err)
	}
}

func TestHTTPSpeedRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"--connections=0":             "--connections: 0",
		"--depth=2000":                "--depth: 2000",
		"--floats=0":                  "--floats: 0",
		"--rounds=0":                  "--rounds: 0",
		"--span=0s":                   "--span: 0s",
		"--cpuprofile=-":              "--cpuprofile: -",
		"--json=/nowhere/at/all.json": "make the folder /nowhere/at first",
		"--cpuprofile=/nowhere/p":     "make the folder /nowhere first",
	} {
		if err := parsed[httpCmd](t, strings.Fields(flags)...).check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", flags, err, want)
		}
	}
}

// The file of --json is tried, and not there before there is a result; - is no file.
func TestHTTPSpeedFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, flag := range []string{"--json=r.json", "--json=-", "--cpuprofile=p"} {
		if err := parsed[httpCmd](t, flag).check(); err != nil {
			t.Error(err)
		}
	}
	var out bytes.Buffer
	rep := &httpReport{Result: &httpbench.Result{Connections: 7}}
	if err := rep.show(&out, "-"); err != nil {
		t.Error(err)
	}
	var back httpReport
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Connections != 7 {
		t.Errorf("%v:\n%s", err, out.String())
	}
	if left, err := os.ReadDir("."); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
