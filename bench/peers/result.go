package peers

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/symphony-serving/symphony/bench/report"
)

// Point is one system under one load.
type Point struct {
	Case     string  `json:"case"`
	System   string  `json:"system"`
	Choice   string  `json:"choice,omitempty"` // what its setting is the best for
	Setting  Setting `json:"setting"`
	Arrivals string  `json:"arrivals"`
	Rate     float64 `json:"offered_rps"`

	Answered int64            `json:"answered"`
	InTime   float64          `json:"in_time_rps"`
	BadRate  float64          `json:"bad_rate"`
	P50      float64          `json:"p50_ms"` // of all answered with an output, late ones too
	P99      float64          `json:"p99_ms"`
	Bad      map[string]int64 `json:"bad,omitempty"` // by reason
	Models   []report.Summary `json:"models,omitempty"`
	Lag      float64          `json:"generator_lag_mean_ms"`
	Note     string           `json:"note,omitempty"` // what is wrong with it
}

// label names a system with its choice, as tables and pictures do.
func (p *Point) label() string {
	if p.Choice == "" || p.Choice == bestOverall {
		return p.System
	}
	return p.System + ", " + p.Choice
}

// fill takes over what the generator counted.
func (p *Point) fill(r *report.Report) {
	p.Answered, p.InTime, p.BadRate, p.P50, p.P99, p.Bad, p.Lag = r.All.Answered, r.All.Goodput, r.All.BadRate, r.All.P50, r.All.P99, r.All.Bad, r.LagMean
	if len(r.Models) > 1 {
		p.Models = r.Models
	}
	if !r.Valid && r.All.Bad["generator_full"] == 0 { // full: the server kept all connections, which is bad enough
		p.Note = r.Verdict
	}
}

// Measured is a system, and why some of it is missing.
type Measured struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Missing map[string]string `json:"missing,omitempty"` // by case; "" for all: why it was not measured
}

// Result is a run.
type Result struct {
	Date        string     `json:"date"`
	Command     string     `json:"command"`
	Host        string     `json:"host"`
	Load        float64    `json:"load_before"` // of the machine, before anything started; -1: not known
	Seconds     float64    `json:"span_s"`      // of each point
	Took        float64    `json:"took_s"`
	Interrupted bool       `json:"interrupted,omitempty"`
	Cases       []Case     `json:"cases"`
	Arrivals    []string   `json:"arrivals"`
	Systems     []Measured `json:"systems"`
	Sweep       []Trial    `json:"sweep"`
	Points      []Point    `json:"points"`
}

// system finds a system's entry.
func (r *Result) system(name string) *Measured {
	i := slices.IndexFunc(r.Systems, func(m Measured) bool { return m.Name == name })
	return &r.Systems[i]
}

// miss says why a system is not measured in a case; "": in none.
func (r *Result) miss(name, in string, why error) {
	m := r.system(name)
	if m.Missing == nil {
		m.Missing = map[string]string{}
	}
	m.Missing[in] = why.Error()
}

// writeJSON writes all of it.
func (r *Result) writeJSON(to io.Writer) error {
	e := json.NewEncoder(to)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// writeCSV writes a row for each point and each of its models.
func (r *Result) writeCSV(to io.Writer) error {
	w := csv.NewWriter(to)
	_ = w.Write([]string{"case", "system", "choice", "setting", "arrivals", "offered_rps", "model", "in_time_rps", "bad_rate", "p50_ms", "p99_ms", "note"})
	for _, p := range r.Points {
		row := func(model string, inTime, bad, p50, p99 float64) {
			_ = w.Write([]string{p.Case, p.System, p.Choice, p.Setting.String(), p.Arrivals, number(p.Rate), model, number(inTime), strconv.FormatFloat(bad, 'f', 5, 64), number(p50), number(p99), p.Note})
		}
		row("", p.InTime, p.BadRate, p.P50, p.P99)
		for _, m := range p.Models {
			row(m.Model, m.Goodput, m.BadRate, m.P50, m.P99)
		}
	}
	w.Flush() // keeps the first error
	return w.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// ReadResult reads what a run wrote.
func ReadResult(from io.Reader) (*Result, error) {
	r := &Result{}
	if err := json.NewDecoder(from).Decode(r); err != nil {
		return nil, fmt.Errorf("result of an earlier run: %w", err)
	}
	return r, nil
}
