package bench

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

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
