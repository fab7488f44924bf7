package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/repository"
)

func TestNewcomersRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"--rows=0": "must be numbers of 1 to 7", "--rows=1,8": `--rows: "8"`, "--rows=x": `"x"`, "--threads=0": "--threads: 0", "--rate=NaN": "--rate: NaN",
		"--span=1s": "--span: 1s", "--most=0s": "--most: 0s",
	} {
		if err := parsed[newcomersCmd](t, strings.Fields(flags)...).check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", flags, err, want)
		}
	}
	if err := parsed[newcomersCmd](t, "--rows=1,7").check(); err != nil {
		t.Error(err)
	}
}

// The models of the rows are a repository's, and a row says what came.
func TestNewcomersModels(t *testing.T) {
	n := &newcomers{cmd: newcomersCmd{Wide: t.TempDir()}, dir: t.TempDir()}
	if err := n.make(); err != nil {
		t.Fatal(err)
	}
	models, failed, err := repository.Load(n.model(""))
	if err != nil || len(failed) > 0 || len(models) != 4 {
		t.Fatalf("%d models, %v, %v", len(models), failed, err)
	}
	var text bytes.Buffer
	printNewcomers(&text, []newcomersRow{{Name: "one", Bad: 0.0123, Sent: 2000, Served: []float64{1.5, -1}}})
	if !strings.Contains(text.String(), "1.230 %") || !strings.Contains(text.String(), "[1.5 -1.0]") {
		t.Errorf("%s", text.String())
	}
}
