package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/examples/onnxfile"
)

// poisonRows and poisonWidth are of the table that the model looks ids up in; each row is its id, again and again.
const poisonRows, poisonWidth, poisonLayers = 10, 512, 120

// poisonModel writes a model that fails on ids beyond its table, as one that looks up tokens does: Gather, then as many
// multiplications as make a batch worth its while.
func poisonModel(t *testing.T) (repository string) {
	t.Helper()
	g := onnxfile.NewGraph("poison")
	g.Input("id", onnxfile.Int64)
	g.Output("y", onnxfile.Float32, poisonWidth)
	g.Constant("table", onnxfile.Float32, func(emit func([]float32)) {
		row := make([]float32, poisonWidth)
		for r := range poisonRows {
			for i := range row {
				row[i] = float32(r)
			}
			emit(row)
		}
	}, poisonRows, poisonWidth)
	g.Constant("one", onnxfile.Float32, func(emit func([]float32)) {
		row := make([]float32, poisonWidth)
		for r := range row {
			clear(row)
			row[r] = 1
			emit(row)
		}
	}, poisonWidth, poisonWidth)
	at := "x0"
	g.Node("Gather", []string{"table", "id"}, at)
	for i := range poisonLayers {
		next := fmt.Sprint("x", i+1)
		if i == poisonLayers-1 {
			next = "y"
		}
		g.Node("MatMul", []string{at, "one"}, next)
		at = next
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "poison", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (&onnxfile.Model{Producer: "symphony-e2e", Graph: g}).Save(filepath.Join(dir, "poison", "1", "model.onnx"), ""); err != nil {
		t.Fatal(err)
	}
	const config = "platform: onnxruntime\nslo: 500ms\nmax_batch: 16\ninputs: [{name: id, type: INT64, shape: []}]\noutputs: [{name: y, type: FP32, shape: [512]}]\n"
	if err := os.WriteFile(filepath.Join(dir, "poison", "config.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startPoison serves it on one CPU device with one thread, and logs JSON.
func startPoison(t *testing.T) (url string, p *process) {
	t.Helper()
	lib, err := filepath.Abs(library(t))
	if err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("POISON_BINARY"); path != "" { // another build, to compare with
		was := symphony
		symphony = path
		t.Cleanup(func() { symphony = was })
	}
	http, scheduler := hostPort(freePort(t)), hostPort(freePort(t))
	pool := "{device_type: cpu, kind: cpu, devices: 1, threads: 1}"
	p = launch(t, "serve", exec.Command(symphony, "serve", "-c", write(t, serveYAML, scheduler, http, poisonModel(t), pool), "--log-format", "json", "--set", "backend.onnxruntime="+lib))
	waitReady(t, http, "poison")
	return "http://" + http + "/v2/models/poison/infer", p
}

// caller asks for one id after the other, each when the one before has its answer.
type caller struct {
	id        func() int64
	items     int
	reconnect bool

	ok, failed, isolated, other atomic.Int64
	wrong                       atomic.Pointer[string]
}

func (c *caller) run(url string, stop *atomic.Bool) {
	transport := &http.Transport{DisableKeepAlives: c.reconnect, MaxIdleConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	for !stop.Load() {
		ids := make([]int64, max(1, c.items))
		for i := range ids {
			ids[i] = c.id()
		}
		c.ask(client, url, ids)
	}
}

func (c *caller) ask(client *http.Client, url string, ids []int64) {
	body, _ := json.Marshal(map[string]any{"inputs": []any{map[string]any{"name": "id", "datatype": "INT64", "shape": []int{len(ids)}, "data": ids}},
		"outputs": []any{map[string]any{"name": "y", "parameters": map[string]any{"binary_data": true}}}})
	r, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		c.say(err.Error())
		return
	}
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	switch reason := r.Header.Get("X-Symphony-Reason"); {
	case err != nil:
		c.say(err.Error())
	case r.StatusCode == 200:
		c.ok.Add(1)
		tail := got[max(0, len(got)-len(ids)*poisonWidth*4):]
		for i, id := range ids {
			if v := math.Float32frombits(binary.LittleEndian.Uint32(tail[i*poisonWidth*4:])); v != float32(id) {
				c.say(fmt.Sprintf("id %d has the answer %v", id, v))
			}
		}
	case reason == "execution":
		c.failed.Add(1)
	case reason == "isolated":
		c.isolated.Add(1)
	default:
		c.say(fmt.Sprint(r.StatusCode, " ", string(got)))
	}
}

func (c *caller) say(text string) {
	c.other.Add(1)
	c.wrong.CompareAndSwap(nil, &text)
}

// poisoned is a line of the table.
type poisoned struct {
	what                      string
	goods, ok, failed, other  int64
	bads, bad, isolated, errs int64
	wrong                     string
}

// poison has 16 good clients and some others for a while.
func poison(url, what string, span time.Duration, reconnect bool, culprits []*caller) poisoned {
	var stop atomic.Bool
	var all sync.WaitGroup
	var good []*caller
	for i := range 16 {
		good = append(good, &caller{id: func() int64 { return int64(i % poisonRows) }, reconnect: reconnect})
	}
	for _, c := range append(append([]*caller(nil), good...), culprits...) {
		all.Go(func() { c.run(url, &stop) })
	}
	time.Sleep(span)
	stop.Store(true)
	all.Wait()
	p := poisoned{what: what}
	for _, c := range good {
		p.ok, p.failed, p.other = p.ok+c.ok.Load(), p.failed+c.failed.Load()+c.isolated.Load(), p.other+c.other.Load()
		if w := c.wrong.Load(); w != nil {
			p.wrong = *w
		}
	}
	for _, c := range culprits {
		p.bads, p.bad, p.isolated, p.errs = p.bads+c.ok.Load(), p.bad+c.failed.Load(), p.isolated+c.isolated.Load(), p.errs+c.other.Load()
		if w := c.wrong.Load(); w != nil && p.wrong == "" {
			p.wrong = *w
		}
	}
	return p
}

func always(id int64) func() int64 { return func() int64 { return id } }

func randomly() int64 { return 100 + rand.Int64N(1<<40) }

// culprits are so many of a kind.
func culprits(n int, like *caller) (all []*caller) {
	for range n {
		all = append(all, &caller{id: like.id, items: like.items, reconnect: like.reconnect})
	}
	return all
}

// otherCulprits are rows with culprits of other kinds.
func otherCulprits(url string, each time.Duration) []func() poisoned {
	return []func() poisoned{
		func() poisoned {
			return poison(url, "one, random ids", each, false, culprits(1, &caller{id: randomly}))
		},
		func() poisoned {
			return poison(url, "four, random ids", each, false, culprits(4, &caller{id: randomly}))
		},
		func() poisoned {
			return poison(url, "one that reconnects", each, false, culprits(1, &caller{id: always(99), reconnect: true}))
		},
		func() poisoned {
			return poison(url, "one that reconnects, random ids", each, false, culprits(1, &caller{id: randomly, reconnect: true}))
		},
		func() poisoned { return poison(url, "none, all reconnect", each, true, nil) },
		func() poisoned {
			return poison(url, "one, all reconnect", each, true, culprits(1, &caller{id: always(99), reconnect: true}))
		},
		func() poisoned {
			return poison(url, "four, all reconnect", each, true, culprits(4, &caller{id: always(99), reconnect: true}))
		},
		func() poisoned {
			return poison(url, "one, all reconnect, random ids", each, true, culprits(1, &caller{id: randomly, reconnect: true}))
		},
		func() poisoned {
			return poison(url, "one with 4 items", each, false, culprits(1, &caller{id: always(99), items: 4}))
		},
		func() poisoned {
			return poison(url, "one gateway, 1 % bad", each, false, culprits(1, &caller{id: func() int64 {
				if rand.IntN(100) == 0 {
					return randomly()
				}
				return 3
			}}))
		},
	}
}

// One client's input that the model fails on costs others no answers, and little time: it fails alone, and is then run
// apart. POISON_SPAN=10s prints the whole table, with spans of 10 s.
func TestOneClientsBadInputFailsAlone(t *testing.T) {
	url, p := startPoison(t)
	long, _ := time.ParseDuration(os.Getenv("POISON_SPAN"))
	each := max(long, 2*time.Second)
	rounds := 1
	if long > 0 {
		rounds = 5 // of the first three, so that what else the machine does weighs on all of them
	}
	rows := []func() poisoned{
		func() poisoned { return poison(url, "none", each, false, nil) },
		func() poisoned { return poison(url, "one", each, false, culprits(1, &caller{id: always(99)})) },
		func() poisoned { return poison(url, "four", each, false, culprits(4, &caller{id: always(99)})) },
	}
	basic := rows
	for range rounds - 1 {
		rows = append(rows, basic...)
	}
	if long > 0 {
		rows = append(rows, otherCulprits(url, each)...)
	}
	t.Logf("%-34s %8s %8s %8s | culprits: %8s %8s %8s %8s", "culprits", "good", "failed", "other", "ok", "failed", "isolated", "other")
	first, sums := int64(0), map[string]int64{}
	for i, row := range rows {
		r := row()
		t.Logf("%-34s %8d %8d %8d |           %8d %8d %8d %8d %s", r.what, r.ok, r.failed, r.other, r.bads, r.bad, r.isolated, r.errs, r.wrong)
		if sums[r.what] += r.ok; i == 0 {
			first = r.ok
		}
		if r.wrong != "" && !strings.Contains(r.wrong, "deadline") || r.failed > 2+r.ok/50 || r.bads > 0 && !strings.Contains(r.what, "gateway") {
			t.Errorf("%s: good clients failed, or a bad one was answered: %+v", r.what, r)
		}
		if r.ok < first/10 {
			t.Errorf("%s: good clients had %d answers, and %d without culprits", r.what, r.ok, first)
		}
	}
	t.Logf("good answers beside those without culprits: with one %.2f, with four %.2f", float64(sums["one"])/float64(sums["none"]), float64(sums["four"])/float64(sums["none"]))
	jsonLines(t, p)
}

// jsonLines tells that a process whose log is JSON has written nothing else, ONNX Runtime's own lines included.
func jsonLines(t *testing.T, p *process) {
	t.Helper()
	failures := 0
	for line := range strings.Lines(p.log.String()) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) != nil {
			t.Fatalf("a line is not JSON: %s", line)
		}
		if strings.Contains(line, "Gather") {
			failures++
		}
	}
	if failures == 0 {
		t.Error("no line tells of the batches that failed")
	}
}
