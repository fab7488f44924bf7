package repository

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Zoo makes emulated models from a table of latency profiles with the columns
// model, alpha_ms, beta_ms, slo_ms.
type Zoo struct {
	CSV      string
	Models   []string // rows to take; empty: all
	Copies   int      // of each, named Model-0, Model-1, ...; 0 or 1: one, named Model
	SLO      mono.Dur // 0: the table's
	MaxBatch int      // 0: 64
}

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
	if len(rows) < 2 || !slices.Equal(rows[0], []string{"model", "alpha_ms", "beta_ms", "slo_ms"}) {
		return nil, fmt.Errorf("zoo %s: the columns must be model,alpha_ms,beta_ms,slo_ms", z.CSV)
	}
	var models []Model
	var errs []error
	found := map[string]bool{}
	for i, row := range rows[1:] {
		if len(z.Models) > 0 && !slices.Contains(z.Models, row[0]) {
			continue
		}
		found[row[0]] = true
		m, err := z.model(row, deviceType)
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
	var ms [3]float64
	for i := range ms {
		v, err := strconv.ParseFloat(row[i+1], 64)
		if err != nil || v < 0 || v > 3600_000 {
			return Model{}, fmt.Errorf("%q is no number of milliseconds", row[i+1])
		}
		ms[i] = v
	}
	vector := []catalog.TensorSpec{{Name: "input", Type: catalog.FP32, Shape: []int64{8}}}
	m := Model{DeviceType: deviceType, Spec: catalog.ModelSpec{Name: row[0], Version: "1", Platform: PlatformEmulated,
		SLO: mono.FromMillis(ms[2]), MaxBatch: 64, Inputs: vector, Outputs: []catalog.TensorSpec{{Name: "output", Type: catalog.FP32, Shape: []int64{8}}},
		Profile: catalog.Profile{Alpha: mono.FromMillis(ms[0]), Beta: mono.FromMillis(ms[1])}}}
	if z.SLO > 0 {
		m.Spec.SLO = z.SLO
	}
	if z.MaxBatch > 0 {
		m.Spec.MaxBatch = z.MaxBatch
	}
	return m, nil
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
