package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/transport/mono"
)

// served is a system with HTTP and two models; record: the file that its inferences are recorded in.
func served(t *testing.T, record string) (url string, end func()) {
	t.Helper()
	w := wholeSystem{Links: "inproc", Models: 2, GPUs: 1, MaxBatch: 8, Floats: 4, Alpha: 0.01, Beta: 0.1, SLO: 20 * mono.Second}
	cfg, err := w.config(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Frontend.HTTP, cfg.Frontend.Record = "127.0.0.1:0", record
	cfg.Frontend.Scheduler, cfg.Backend.Scheduler = config.Addresses{cfg.Scheduler.Listen[0]}, cfg.Scheduler.Listen[0]
	p, err := parts.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Client.WaitReady(t.Context(), w.names()...); err != nil {
		t.Fatal(err)
	}
	return "http://" + s.Web.Address, func() {
		if err := s.Drain(); err != nil {
			t.Error(err)
		}
	}
}

// TestReplayOfARecording: what one system recorded is played to another one, request by request.
func TestReplayOfARecording(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "recording.csv")
	url, end := served(t, file)
	for i := range 12 {
		items := 1 + i%2
		body := fmt.Sprintf(`{"parameters":{"timeout":%d},"inputs":[{"name":"input","datatype":"FP32","shape":[%d,4],"data":[%s0]}]}`, 10_000_000+i, items, strings.Repeat("0,", 4*items-1))
		resp, err := http.Post(fmt.Sprintf("%s/v2/models/m%d/infer", url, i%2), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
	}
	end()
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 13 || !strings.Contains(string(text), ",m1,,10000011,2\n") {
		t.Fatalf("%s, %v", text, err)
	}

	url, end = served(t, "")
	defer end()
	out := filepath.Join(dir, "report.json")
	play := func(flags ...string) error {
		return parsed[loadCmd](t, append([]string{"--url=" + url, "--replay=" + file, "--quiet", "--json=" + out}, flags...)...).Run()
	}
	for flags, want := range map[string]int64{"--speed=1": 18, "--models=m1 --speed=2": 12, "--models=m0 --slo=15s": 6} {
		// So short a run may be called INVALID: a busy machine sends it late.
		if err := play(strings.Fields(flags)...); err != nil && !strings.Contains(err.Error(), "INVALID") {
			t.Fatalf("%s: %v", flags, err)
		}
		var rep report.Report
		text, err := os.ReadFile(out)
		if err == nil {
			err = json.Unmarshal(text, &rep)
		}
		if err != nil || rep.Sent != want || rep.Lost != 0 {
			t.Errorf("%s: %d sent, %d lost, %v", flags, rep.Sent, rep.Lost, err)
		}
	}
	if err := play("--models=nobody"); err == nil || !strings.Contains(err.Error(), "no request of the models [nobody]") {
		t.Errorf("no such model: %v", err)
	}
	for name, text := range map[string]string{"broken": "1,m0\nx,m0\n", "strange": "1,m0\n2,strange\n", "long": "1,m0\n9000000,m0\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"broken": ":2: timestamp", "strange": "the model strange, which is not ready there", "long": "give a higher --speed"}[name]
		if err := play(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := (loadCmd{Replay: filepath.Join(dir, "none")}).measure(); err == nil {
		t.Error("a file that is not there")
	}
}
