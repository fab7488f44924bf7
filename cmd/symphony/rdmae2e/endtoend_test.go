package rdmae2e

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The parts of the system as processes that refuse to do without RDMA: the digits
// are told right, and every byte of them came by READ.
func TestEndToEnd(t *testing.T) {
	need(t)
	if _, err := os.Stat(filepath.Join(root, "build/onnxruntime/libonnxruntime.so")); err != nil {
		t.Fatalf("ONNX Runtime is not there (make models): %v", err)
	}
	c := newCluster(t, "always", digits(t), "{device_type: cpu, kind: cpu, devices: 1, threads: 1}")
	c.start("digits-cnn")
	c.links(c.port.backendMetrics, 2, 0)
	right, total := c.classify()
	for _, p := range []*process{c.scheduler, c.frontend, c.backend} {
		device, link := p.log.line("RDMA:", "device="), p.log.line("link over RDMA", "qp=")
		if device == "" || link == "" {
			t.Errorf("%s does not say its device and queue pairs", p.name)
		}
		say("%s: %s", p.name, device)
		say("%s: %s", p.name, link)
	}
	at := c.port.backendMetrics
	rdma, tcp := mustMetric(t, at, "symphony_input_read_bytes_total", `"rdma"`), mustMetric(t, at, "symphony_input_read_bytes_total", `"tcp"`)
	say("digits: %d of %d right; input bytes READ by RDMA: %g in %g READs; input bytes over TCP: %g", right, total, rdma, mustMetric(t, at, "symphony_input_reads_total", `"rdma"`), tcp)
	if total != 20 || right < 19 || rdma < float64(total*256) || tcp != 0 {
		t.Errorf("%d of %d right, %g bytes by RDMA, %g by TCP", right, total, rdma, tcp)
	}
	c.stop()
}

// digits is a repository of one of the example's models, with time for emulation.
func digits(t *testing.T) string {
	t.Helper()
	from := filepath.Join(root, "examples/digits/models/digits-cnn")
	text, err := os.ReadFile(filepath.Join(from, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("slo: 50ms", "slo: 20s", "max_batch: 32", "max_batch: 4").Replace(string(text))
	path := write(t, "digits-cnn/config.yaml", "%s", config)
	if err := os.CopyFS(filepath.Join(filepath.Dir(path), "1"), os.DirFS(filepath.Join(from, "1"))); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(path))
}

// classify sends the sample images, all at once: they make whole batches, which are
// not deferred until the SLO is nearly over.
func (c *cluster) classify() (right, total int) {
	c.t.Helper()
	folder := filepath.Join(root, "examples/digits/images")
	f, err := os.Open(filepath.Join(folder, "labels.csv"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		c.t.Fatal(err)
	}
	labels := make(chan string, len(rows))
	for _, row := range rows[1:] {
		go func() {
			label, err := c.label(filepath.Join(folder, row[0]))
			if err != nil {
				c.t.Errorf("%s: %v", row[0], err)
			}
			if label != row[1] {
				label = ""
			}
			labels <- label
		}()
	}
	for range rows[1:] {
		if <-labels != "" {
			right++
		}
	}
	return right, len(rows) - 1
}

// label asks what an image shows.
func (c *cluster) label(path string) (string, error) {
	image, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", fmt.Sprintf("http://127.0.0.1:%d/v1/classify/digits-cnn", c.port.http), bytes.NewReader(image))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		return "", fmt.Errorf("status %d: %s %w", resp.StatusCode, body, err)
	}
	var reply struct{ Label string }
	err = json.Unmarshal(body, &reply)
	return reply.Label, err
}
