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

	"github.com/symphony-serving/symphony/bench/netbench"
)

// A whole run with servers in processes of their own: they answer, their processor
// time is theirs, they end, and the files are there.
func TestNetProcesses(t *testing.T) {
	t.Setenv(beMain, "1")
	c := parsed[netCmd](t, "--tcp-only", "--servers=3", "--objects=2", "--size=20000", "--rounds=200", "--duration=100ms", "--quiet")
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	w, err := c.openWays()
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.measure(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	in := r.Ways[0].Incast
	if len(r.Ways) != 1 || in.Round.Samples != 200 || in.Read.Samples != 1200 || in.Bytes != 1200*20_000 || in.Servers <= 0 || in.Client <= 0 {
		t.Errorf("incast %+v", in)
	}
	dir := t.TempDir()
	if err := c.report(w, r).write(dir, c.fileName(w)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tcp.txt", "tcp.json", "tcp.svg", "tcp.png", "tcp-latency.svg", "tcp-latency.png"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "tcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back netReport
	if err := json.Unmarshal(text, &back); err != nil || len(back.Ways) != 1 || back.Ways[0].Incast.Bytes != in.Bytes {
		t.Errorf("JSON: %v, %d ways", err, len(back.Ways))
	}
}

// An interrupted run ends its servers too.
func TestNetInterrupted(t *testing.T) {
	t.Setenv(beMain, "1")
	c := parsed[netCmd](t, "--tcp-only", "--servers=2", "--objects=1", "--duration=1h", "--quiet")
	w, err := c.openWays()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if r, err := c.measure(ctx, w); err == nil && !r.Interrupted || err != nil && !errors.Is(err, netbench.ErrNothing) {
		t.Errorf("result %+v, error %v", r, err)
	}
}

// Where there is no RDMA the header says so in one line; the words for soft-RoCE
// stand in the header, and only where they belong.
func TestNetHeader(t *testing.T) {
	r := &netbench.Result{Ways: []netbench.WayResult{{Name: netbench.TCP}}}
	c := parsed[netCmd](t, "--tcp-only")
	w, err := c.openWays()
	if err != nil {
		t.Fatal(err)
	}
	rep := c.report(w, r)
	var out bytes.Buffer
	rep.print(&out)
	if s := out.String(); !strings.Contains(s, "\nRDMA: none, TCP was measured alone: left out by --tcp-only\n") || strings.Contains(s, "soft-RoCE") {
		t.Errorf("printed\n%s", s)
	}
	out.Reset()
	rep.Software, rep.Caveat = true, netbench.Caveat
	if rep.print(&out); !strings.HasPrefix(out.String(), "soft-RoCE under emulation: shape, not speed\n") {
		t.Errorf("printed\n%s", out.String())
	}
}

func TestNetRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"--servers=0":                "--servers: 0",
		"--objects=5000":             "--objects: 5000",
		"--size=15":                  "--size: 15",
		"--duration=0s":              "--duration: 0s",
		"--tcp-only --device=mlx5_0": "contradict",
		"--name=a/b":                 `--name: "a/b"`,
	} {
		if err := parsed[netCmd](t, strings.Fields(flags)...).check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", flags, err, want)
		}
	}
}

func TestNetFileName(t *testing.T) {
	w := &netWays{}
	if got := parsed[netCmd](t).fileName(w); got != "tcp" {
		t.Errorf("without a device: %q", got)
	}
	if got := parsed[netCmd](t, "--name=soft-roce").fileName(w); got != "soft-roce" {
		t.Errorf("named: %q", got)
	}
}

// A folder that takes no files is named as the user did, without the name that was tried.
func TestTryFolderNamesTheFolder(t *testing.T) {
	const none = "/proc"
	if err := tryFolder(none); err == nil || !strings.HasPrefix(err.Error(), "make a file in "+none+": ") || strings.Contains(err.Error(), ".try") {
		t.Errorf("error %v", err)
	}
}
