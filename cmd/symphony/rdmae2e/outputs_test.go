package rdmae2e

import (
	"bytes"
	bin "encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/symphony-serving/symphony/examples/onnxfile"
)

// A model that repeats its input: word i of an output is word i mod period of the input.
const (
	period = 1021
	times  = 600 // 2.3 MiB
)

// Batches of more outputs than a link's send buffer takes arrive over lanes, each word in its place.
func TestLargeOutputs(t *testing.T) {
	need(t)
	config := write(t, "repeat/config.yaml", "platform: onnxruntime\nslo: 60s\nmax_batch: 4\ninputs: [{name: x, type: FP32, shape: [%d]}]\noutputs: [{name: y, type: FP32, shape: [%d]}]\n", period, period*times)
	g := onnxfile.NewGraph("repeat")
	g.Integers("times", []int64{1, times}, 2)
	g.Node("Tile", []string{"x", "times"}, "y")
	g.Input("x", onnxfile.Float32, period)
	g.Output("y", onnxfile.Float32, period*times)
	file := filepath.Join(filepath.Dir(config), "1", "model.onnx")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (&onnxfile.Model{Producer: "test", Graph: g}).Save(file, ""); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, "always", filepath.Dir(filepath.Dir(config)), "{device_type: cpu, kind: cpu, devices: 1, threads: 1}")
	c.start("repeat")
	c.links(c.port.backendMetrics, 2, 0)
	for seed, items := range []int{1, 2, 4, 4} {
		if err := c.repeat(seed, items); err != nil {
			t.Errorf("%d items: %v", items, err)
		}
	}
	say("outputs of %d bytes, batches of 1 to 4 over RDMA: each word is the model's own", 4*period*times)
	c.stop()
}

// repeat asks for some items and compares each word.
func (c *cluster) repeat(seed, items int) error {
	word := func(item, i int) float32 { return float32(seed*40_000 + item*1100 + i%period) }
	head := fmt.Sprintf(`{"parameters":{"binary_data_output":true},"inputs":[{"name":"x","datatype":"FP32","shape":[%d,%d],"parameters":{"binary_data_size":%d}}]}`, items, period, items*period*4)
	body := []byte(head)
	for k := range items {
		for i := range period {
			body = bin.LittleEndian.AppendUint32(body, math.Float32bits(word(k, i)))
		}
	}
	r, err := http.NewRequest("POST", fmt.Sprintf("http://127.0.0.1:%d/v2/models/repeat/infer", c.port.http), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Inference-Header-Content-Length", strconv.Itoa(len(head)))
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 {
		return fmt.Errorf("status %d, %d bytes, %w", a.StatusCode, len(all), err)
	}
	skip, _ := strconv.Atoi(a.Header.Get("Inference-Header-Content-Length"))
	out, n := all[skip:], period*times
	if len(out) != items*n*4 {
		return fmt.Errorf("%d bytes, want %d", len(out), items*n*4)
	}
	for k := range items {
		for i := range n {
			if got := math.Float32frombits(bin.LittleEndian.Uint32(out[4*(k*n+i):])); got != word(k, i) {
				return fmt.Errorf("item %d, word %d is %v, want %v", k, i, got, word(k, i))
			}
		}
	}
	return nil
}
