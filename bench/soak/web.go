package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// web is the HTTP client: inference through a frontend's link, and /metrics and
// readiness at the parts' own addresses.
type web struct {
	infer http.Client
	look  http.Client // no connection is kept: a killed part's would be in the way
}

func newWeb() *web {
	return &web{
		infer: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second}},
		look:  http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second},
	}
}

func (w *web) close() { w.infer.CloseIdleConnections() }

func (w *web) get(address, path string) ([]byte, error) {
	resp, err := w.look.Get("http://" + address + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d", path, resp.StatusCode)
	}
	return body, err
}

func (w *web) ready(address, model string) error {
	_, err := w.get(address, "/v2/models/"+model+"/ready")
	return err
}

// sums reads /metrics; samples of one name are added up.
func (w *web) sums(address string) (map[string]float64, error) {
	body, err := w.get(address, "/metrics")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			out[name] += v
		}
	}
	return out, nil
}

// Reasons that only HTTP clients know: a connection ended, or nothing came on it.
const (
	reasonConnection = "connection"
	reasonSilence    = "no_answer"
)

// post asks for one inference with a binary tensor.
func (w *web) post(address, model string, input []byte, budget mono.Dur) (reason string, output []byte, batch int) {
	head := fmt.Sprintf(`{"parameters":{"binary_data_output":true,"timeout":%d},"inputs":[{"name":"input","datatype":"FP32","shape":[1,%d],"parameters":{"binary_data_size":%d}}]}`,
		int64(budget/mono.Microsecond), len(input)/4, len(input))
	ctx, cancel := context.WithTimeout(context.Background(), (budget + overdue/2).Std())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/v2/models/"+model+"/infer", io.MultiReader(strings.NewReader(head), bytes.NewReader(input)))
	if err != nil {
		return err.Error(), nil, 0
	}
	req.ContentLength = int64(len(head) + len(input))
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("Inference-Header-Content-Length", strconv.Itoa(len(head)))
	resp, err := w.infer.Do(req)
	if err != nil {
		return brokenReason(err), nil, 0
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return brokenReason(err), nil, 0
	}
	if resp.StatusCode != http.StatusOK {
		if why := resp.Header.Get("X-Symphony-Reason"); why != "" {
			return why, nil, 0
		}
		return fmt.Sprintf("http_%d", resp.StatusCode), nil, 0
	}
	at, err := strconv.Atoi(resp.Header.Get("Inference-Header-Content-Length"))
	if err != nil || at < 0 || at > len(body) {
		return "", []byte{}, 0 // the ledger finds it foreign
	}
	return "", body[at:], batchSize(body[:at])
}

func brokenReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return reasonSilence
	}
	return reasonConnection
}

// batchSize finds it in the reply's JSON.
func batchSize(head []byte) int {
	_, rest, _ := bytes.Cut(head, []byte(`"batch_size":`))
	n := 0
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}
