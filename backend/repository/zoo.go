package repository

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Zoo makes emulated models from a table of latency profiles with the columns
// model, alpha_ms, beta_ms, slo_ms, or from one with weights (weightedColumns).
type Zoo struct {
	CSV      string
	Models   []string // rows to take; empty: all
	Copies   int      // of each, named Model-0, Model-1, ...; 0 or 1: one, named Model
	SLO      mono.Dur // 0: the table's, if it has any
	MaxBatch int      // 0: 64, or the table's
	Resident bool     // in a paged pool: on all of its devices at all times
}

// columns of a table of lines.
func columns() []string { return []string{"model", "alpha_ms", "beta_ms", "slo_ms"} }

// Load reads the table and makes the models. Each takes a small FP32 vector
// and gives one back.
func (z Zoo) Load(deviceType string) ([]Model, error) {
	f, err := os.Open(z.CSV)
	if err != nil {
		return nil, fmt.Errorf("zoo: %w", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("zoo %s: %w", z.CSV, err)
	}
	read := z.model
	switch {
	case len(rows) >= 2 && slices.Equal(rows[0], columns()):
	case len(rows) >= 2 && slices.Equal(rows[0], weightedColumns()):
		read = z.weighted
	default:
		return nil, fmt.Errorf("zoo %s: the columns must be %s, or %s", z.CSV, strings.Join(columns(), ","), strings.Join(weightedColumns(), ","))
	}
	var models []Model
	var errs []error
	found := map[string]bool{}
	for i, row := range rows[1:] {
		if len(z.Models) > 0 && !slices.Contains(z.Models, row[0]) {
			continue
		}
		found[row[0]] = true
		m, err := read(row, deviceType)
		if err != nil {
			errs = append(errs, fmt.Errorf("zoo %s, line %d: %w", z.CSV, i+2, err))
			continue
		}
		models = append(models, z.copies(m)...)
	}
	for _, name := range z.Models {
		if !found[name] {
			errs = append(errs, fmt.Errorf("zoo %s: there is no model %q", z.CSV, name))
		}
	}
	return models, errors.Join(errs...)
}

func (z Zoo) model(row []string, deviceType string) (Model, error) {
	ms, err := numbers(row[1:])
	if err != nil {
		return Model{}, err
	}
	m := z.named(row[0], deviceType, 64)
	m.Spec.Profile = catalog.Profile{Alpha: mono.FromMillis(ms[0]), Beta: mono.FromMillis(ms[1])}
	if z.SLO == 0 {
		m.Spec.SLO = mono.FromMillis(ms[2])
	}
	return m, nil
}

// numbers are a row's, milliseconds as a rule.
func numbers(fields []string) ([]float64, error) {
	var all []float64
	for _, text := range fields {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v < 0 || v > 3600_000 {
			return nil, fmt.Errorf("%q is no number of milliseconds", text)
		}
		all = append(all, v)
	}
	return all, nil
}

// named is a model without a profile, of a small vector.
func (z Zoo) named(name, deviceType string, maxBatch int) Model {
	if z.MaxBatch > 0 {
		maxBatch = z.MaxBatch
	}
	return Model{DeviceType: deviceType, Spec: catalog.ModelSpec{Name: name, Version: "1", Platform: PlatformEmulated, SLO: z.SLO, MaxBatch: maxBatch, Resident: z.Resident,
		Inputs:  []catalog.TensorSpec{{Name: "input", Type: catalog.FP32, Shape: []int64{8}}},
		Outputs: []catalog.TensorSpec{{Name: "output", Type: catalog.FP32, Shape: []int64{8}}}}}
}

func (z Zoo) copies(m Model) []Model {
	if z.Copies <= 1 {
		return []Model{m}
	}
	var out []Model
	for i := range z.Copies {
		c := m
		c.Spec.Name = fmt.Sprintf("%s-%d", m.Spec.Name, i)
		out = append(out, c)
	}
	return out
}
