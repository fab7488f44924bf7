package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/symphony-serving/symphony/bench/subclusters"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// modelFields are what a file of models may say of one.
func modelFields() []string {
	return []string{"name", "rate", "static", "dynamic", "slo", "alpha", "beta", "profile", "max_batch", "need", "cost", "resident"}
}

// modelRow is a model as it stands in the file: its fields' text, and where it is.
type modelRow struct {
	file   string
	line   int
	fields map[string]string
}

func (r *modelRow) wrong(field, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s: %s", r.file, r.line, field, fmt.Sprintf(format, args...))
}

// readModels reads --models.
func readModels(path string) ([]partition.Model, error) {
	if rest, ok := strings.CutPrefix(path, "zoo:"); ok {
		return drawnModels(rest)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--models: %w; give a file of models, see --help", err)
	}
	var rows []modelRow
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".csv":
		rows, err = csvRows(path, text)
	case ".json", ".yaml", ".yml": // JSON is YAML
		rows, err = yamlRows(path, text)
	default:
		return nil, fmt.Errorf("--models: %s: its name must end in .csv, .json or .yaml", path)
	}
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no models", path)
	}
	models, first := make([]partition.Model, 0, len(rows)), map[string]int{}
	for i := range rows {
		m, err := rows[i].model()
		if err != nil {
			return nil, err
		}
		if at, ok := first[m.Name]; ok {
			return nil, rows[i].wrong("name", "%q is in line %d already", m.Name, at)
		}
		first[m.Name] = rows[i].line
		models = append(models, m)
	}
	return models, nil
}

// drawnModels is zoo:N and zoo:N:SEED.
func drawnModels(text string) ([]partition.Model, error) {
	count, seed, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(count)
	s, err2 := uint64(1), error(nil)
	if seed != "" {
		s, err2 = strconv.ParseUint(seed, 10, 64)
	}
	if err != nil || err2 != nil || n < 1 || n > partition.ModelsMost {
		return nil, fmt.Errorf("--models: zoo:%s: write zoo:N or zoo:N:SEED, with N from 1 to %d", text, partition.ModelsMost)
	}
	p, err := subclusters.Problem(subclusters.Draw(n, s, 10), 1)
	if err != nil {
		return nil, err
	}
	return p.Models, nil
}

func csvRows(path string, text []byte) (rows []modelRow, err error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	r.TrimLeadingSpace = true
	var header []string
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		line, _ := r.FieldPos(0)
		row := modelRow{path, line, map[string]string{}}
		for k, v := range record {
			v = strings.TrimSpace(v)
			if header == nil {
				if !slices.Contains(modelFields(), v) || slices.Contains(record[:k], record[k]) {
					return nil, row.wrong(v, "no such column, or twice; there are %s", strings.Join(modelFields(), ", "))
				}
				continue
			}
			if v != "" {
				row.fields[header[k]] = v
			}
		}
		if header == nil {
			for _, v := range record {
				header = append(header, strings.TrimSpace(v))
			}
			continue
		}
		rows = append(rows, row)
	}
}

// yamlRows reads a list of models, or one under the key models.
func yamlRows(path string, text []byte) (rows []modelRow, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	list := doc.Content[0]
	if list.Kind == yaml.MappingNode {
		for k := 0; k+1 < len(list.Content); k += 2 {
			if list.Content[k].Value == "models" {
				list = list.Content[k+1]
				break
			}
		}
	}
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s:%d: must be a list of models, or have one under the key models", path, list.Line)
	}
	for _, n := range list.Content {
		row := modelRow{path, n.Line, map[string]string{}}
		if n.Kind != yaml.MappingNode {
			return nil, row.wrong("model", "must have fields: %s", strings.Join(modelFields(), ", "))
		}
		for k := 0; k+1 < len(n.Content); k += 2 {
			key, v := n.Content[k], n.Content[k+1]
			at := modelRow{path, key.Line, nil}
			switch {
			case !slices.Contains(modelFields(), key.Value):
				return nil, at.wrong(key.Value, "no such field; there are %s", strings.Join(modelFields(), ", "))
			case v.Kind != yaml.ScalarNode:
				return nil, at.wrong(key.Value, "must be one value")
			}
			row.fields[key.Value] = strings.TrimSpace(v.Value)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// model reads the fields.
func (r *modelRow) model() (m partition.Model, err error) {
	if m.Name = r.fields["name"]; m.Name == "" {
		return m, r.wrong("name", "lacks")
	}
	kind, bytesOf, err := r.kind()
	if err != nil {
		return m, err
	}
	m.Static, m.Dynamic = bytesOf.Static, bytesOf.Dynamic
	rate := math.NaN()
	for _, f := range []struct {
		name string
		to   *float64
	}{{"rate", &rate}, {"need", &m.Need}, {"cost", &m.Cost}} {
		if text, ok := r.fields[f.name]; ok {
			if *f.to, err = strconv.ParseFloat(text, 64); err != nil || !(*f.to >= 0 && *f.to <= 1e15) {
				return m, r.wrong(f.name, "%q, must be a number from 0 to 1e15", text)
			}
		}
	}
	if m.Rate = rate; math.IsNaN(rate) {
		return m, r.wrong("rate", "lacks: requests/s")
	}
	for _, f := range []struct {
		name string
		to   *int64
	}{{"static", &m.Static}, {"dynamic", &m.Dynamic}} {
		if text, ok := r.fields[f.name]; ok {
			size, err := config.ParseSize(text)
			if err != nil || size > partition.BytesMost {
				return m, r.wrong(f.name, "%q, must be a size as 512MiB or a number of bytes", text)
			}
			*f.to = int64(size)
		}
	}
	if text, ok := r.fields["resident"]; ok {
		if m.Resident, err = strconv.ParseBool(text); err != nil {
			return m, r.wrong("resident", "%q, must be true or false", text)
		}
	}
	if _, ok := r.fields["cost"]; !ok {
		m.Cost = float64(m.Static)
	}
	return m, r.reckon(&m, kind)
}

// kind is the latency profile and SLO: of the zoo, and what the row says over it.
func (r *modelRow) kind() (k zoo.Model, bytesOf zoo.Memory, err error) {
	if name, ok := r.fields["profile"]; ok {
		all := zoo.A100()
		i := slices.IndexFunc(all, func(m zoo.Model) bool { return m.Name == name })
		if i < 0 {
			return k, bytesOf, r.wrong("profile", "%q is no model of the A100 zoo", name)
		}
		k = all[i]
		bytesOf, _ = zoo.MemoryOf(k)
	}
	for _, f := range []struct {
		name string
		to   *mono.Dur
	}{{"alpha", &k.Alpha}, {"beta", &k.Beta}, {"slo", &k.SLO}} {
		if text, ok := r.fields[f.name]; ok {
			d, err := time.ParseDuration(text)
			if err != nil || d < 0 || d > time.Hour {
				return k, bytesOf, r.wrong(f.name, "%q, must be a span as 25ms", text)
			}
			*f.to = mono.Dur(d)
		}
	}
	return k, bytesOf, nil
}

// reckon sets what the need depends on, where the row has a profile and an SLO.
func (r *modelRow) reckon(m *partition.Model, k zoo.Model) error {
	if k.Alpha+k.Beta == 0 || k.SLO == 0 {
		return nil // needsKnown asks, where it matters
	}
	most := 256
	if text, ok := r.fields["max_batch"]; ok {
		var err error
		if most, err = strconv.Atoi(text); err != nil || most < 1 || most > profile.BatchMax {
			return r.wrong("max_batch", "%q, must be 1 to %d", text, profile.BatchMax)
		}
	}
	p, err := profile.Linear(k.Alpha, k.Beta, most)
	if err != nil {
		return r.wrong("alpha, beta", "%v", err)
	}
	if k.SLO < p.Latency(1) {
		return r.wrong("slo", "%v, must be at least l(1), %v: no request can be in time", k.SLO, p.Latency(1))
	}
	perNano := m.Rate / float64(mono.Second)
	m.Batch, m.Slack = batching.Gathered(p, k.SLO, perNano), (k.SLO - p.Latency(1)).Seconds()
	if _, ok := r.fields["need"]; !ok {
		m.Need = batching.Need(p, k.SLO, perNano)
	}
	return nil
}

// needsKnown refuses models without a need, for an objective that is about it.
func needsKnown(models []partition.Model) error {
	for i := range models {
		if m := &models[i]; m.Rate > 0 && m.Need == 0 {
			return fmt.Errorf("model %s: its need is not known: give need, or slo with alpha and beta, or profile", m.Name)
		}
	}
	return nil
}
