package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// fetch gets or posts and reads JSON into v.
func fetch(method, url string, v any) error {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, strings.TrimSpace(string(body)))
	}
	return json.Unmarshal(body, v)
}

// httpSpecs finds the ready models behind an ingress: their inputs by the
// protocol's metadata, their SLO by the model's configuration.
func httpSpecs(url string, patterns []string) ([]catalog.ModelSpec, error) {
	var index []struct{ Name, Version, State string }
	if err := fetch("POST", url+"/v2/repository/index", &index); err != nil {
		return nil, err
	}
	var specs []catalog.ModelSpec
	for _, m := range index {
		if m.State != "READY" || !wanted(m.Name, patterns) {
			continue
		}
		s, err := httpSpec(url, m.Name)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("no ready model matches %v", patterns)
	}
	return specs, nil
}

func httpSpec(url, name string) (catalog.ModelSpec, error) {
	var meta struct {
		Inputs []struct {
			Name, Datatype string
			Shape          []int64
		}
	}
	var cfg struct {
		MaxBatchSize int `json:"max_batch_size"`
		Parameters   map[string]struct {
			StringValue string `json:"string_value"`
		}
	}
	s := catalog.ModelSpec{Name: name}
	if err := fetch("GET", url+"/v2/models/"+name, &meta); err != nil {
		return s, err
	}
	if err := fetch("GET", url+"/v2/models/"+name+"/config", &cfg); err != nil {
		return s, err
	}
	for _, in := range meta.Inputs {
		shape := in.Shape
		if cfg.MaxBatchSize > 0 && len(shape) > 0 {
			shape = shape[1:]
		}
		s.Inputs = append(s.Inputs, catalog.TensorSpec{Name: in.Name, Type: catalog.DataType(in.Datatype), Shape: shape})
	}
	slo, err := strconv.ParseFloat(cfg.Parameters["slo_ms"].StringValue, 64)
	if err != nil {
		return s, fmt.Errorf("model %s: its configuration names no slo_ms; give --slo", name)
	}
	s.SLO = mono.FromMillis(slo)
	return s, nil
}

// gpuBusy reads the GPUs' busy time now; the returned func gives the shares
// since then.
func (c loadCmd) gpuBusy() func() map[string]float64 {
	url := c.Metrics
	if url == "" {
		url = c.URL
	}
	if url == "" {
		return func() map[string]float64 { return nil }
	}
	url = strings.TrimSuffix(url, "/metrics") + "/metrics"
	before, start := readBusy(url), time.Now()
	return func() map[string]float64 {
		after, span := readBusy(url), time.Since(start).Seconds()
		for k := range after {
			after[k] = (after[k] - before[k]) / span
		}
		return after
	}
}

func readBusy(url string) map[string]float64 {
	out := map[string]float64{}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return out
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return out
	}
	line := regexp.MustCompile(`(?m)^symphony_gpu_busy_seconds_total\{gpu="([^"]*)",pool="([^"]*)"\} (\S+)$`)
	for _, m := range line.FindAllStringSubmatch(string(body), -1) {
		if v, err := strconv.ParseFloat(m[3], 64); err == nil {
			out[m[2]+"/"+m[1]] = v
		}
	}
	return out
}
