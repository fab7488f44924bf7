package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// errNotNow is a refusal that another try may not get.
var errNotNow = errors.New("not now")

const samplesTries = 8

// sample is one image and what came back for it.
type sample struct {
	file, want string
	label      string
	prob       float64
	latency    float64 // ms
	slack      float64 // ms
	batch      int
	err        error
}

// showSamples sends every image of the folder to the model at once, over
// HTTP, and prints a table; and what to do next, unless that is to end.
func showSamples(ctx context.Context, w io.Writer, url, admin, model, dir string, once bool) (right, total int, err error) {
	list, err := readSamples(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("--samples: %w", err)
	}
	var wait sync.WaitGroup
	for i := range list {
		wait.Add(1)
		go func() {
			defer wait.Done()
			path := filepath.Join(dir, list[i].file)
			// 429 and 503 mean "not now": a client tries again, a little later each time.
			for try := range samplesTries {
				time.Sleep(time.Duration(try) * 50 * time.Millisecond)
				if list[i].err = classify(ctx, url, model, path, &list[i]); !errors.Is(list[i].err, errNotNow) {
					return
				}
			}
		}()
	}
	wait.Wait()
	right = printSamples(w, model, list)
	if once { // it ends now
		return right, len(list), nil
	}
	printGuide(w, url, admin, model, filepath.Join(dir, list[0].file))
	return right, len(list), nil
}

// haveSamples says what is missing of a folder: before anything is started for it.
func haveSamples(dir string) error {
	list, err := readSamples(dir)
	if err != nil {
		return err
	}
	for i := range list {
		if _, err := os.Stat(filepath.Join(dir, list[i].file)); err != nil {
			return err
		}
	}
	return nil
}

// readSamples reads labels.csv: file,label.
func readSamples(dir string) ([]sample, error) {
	f, err := os.Open(filepath.Join(dir, "labels.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 || len(rows[0]) != 2 {
		return nil, fmt.Errorf("%s must have the columns file,label and at least one row", f.Name())
	}
	var out []sample
	for _, r := range rows[1:] {
		out = append(out, sample{file: r[0], want: r[1]})
	}
	return out, nil
}

// classify posts one image.
func classify(ctx context.Context, url, model, path string, s *sample) error {
	image, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/classify/"+model, bytes.NewReader(image))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var reply struct {
		Label       string  `json:"label"`
		Probability float64 `json:"probability"`
		LatencyMS   float64 `json:"latency_ms"`
		SlackMS     float64 `json:"slack_ms"`
		BatchSize   int     `json:"batch_size"`
		Error       string  `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s", errNotNow, reply.Error)
	default:
		return errors.New(reply.Error)
	}
	s.label, s.prob, s.latency, s.slack, s.batch = reply.Label, reply.Probability, reply.LatencyMS, reply.SlackMS, reply.BatchSize
	return nil
}

func printSamples(w io.Writer, model string, list []sample) (right int) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nimage\tlabel\tprobability\tlatency\tbatch size\tslack to the deadline\t\n")
	for _, s := range list {
		if s.err != nil {
			fmt.Fprintf(t, "%s\terror: %v\n", s.file, s.err)
			continue
		}
		note := "right"
		if s.label == s.want {
			right++
		} else {
			note = "wrong, it is a " + s.want
		}
		fmt.Fprintf(t, "%s\t%s\t%.3f\t%.1f ms\t%d\t%.1f ms\t%s\n", s.file, s.label, s.prob, s.latency, s.batch, s.slack, note)
	}
	t.Flush()
	fmt.Fprintf(w, "\n%s: %d of %d are right\n", model, right, len(list))
	return right
}

// printGuide tells a newcomer what to do next.
func printGuide(w io.Writer, url, admin, model, image string) {
	fmt.Fprintf(w, "\nTry it:\n  curl --data-binary @%s %s/v1/classify/%s\n\n", image, url, model)
	fmt.Fprintf(w, "%s\n", strings.Join([]string{
		"  Open Inference Protocol (V2)  " + url + "/v2",
		"  readiness                     " + url + "/v2/health/ready",
		"  metrics                       " + url + "/metrics",
		"  the schedule, live            " + admin, ""}, "\n"))
}
