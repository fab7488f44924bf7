package zoo

import (
	_ "embed" // the table
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

//go:embed zoo_v100_clockwork.csv
var v100 string

// Weighted is a model with its weights and a table of latencies: a row of Clockwork's
// Table 1. A line alpha*b + beta fits these rows badly, by 30 % at worst.
type Weighted struct {
	Name          string
	Input, Output int64 // bytes of a request
	Weights       int64 // bytes
	Transfer      mono.Dur
	Latencies     []profile.Sample // of batch sizes 1, 2, 4, 8, 16
}

// PageSize and V100Pages are Clockwork's: its pages have 16 MiB, and its V100 with 32 GB has
// so many of them beside what runs needs (1,376 in its configuration).
const (
	PageSize  = 16 << 20
	V100Pages = 1376
)

// V100 is Clockwork's Table 1: 64 models on an NVIDIA V100 (zoo_v100_clockwork.csv), in its order.
func V100() []Weighted {
	models, err := readWeighted(v100, "zoo_v100_clockwork.csv")
	if err != nil {
		panic(err) // the file is part of the program: a bug
	}
	return models
}

// V100Varieties are the 61 that section 6.5 speaks of, by our reading: Table 1 less the three tuned ones.
func V100Varieties() []Weighted {
	var out []Weighted
	for _, w := range V100() {
		if !strings.Contains(w.Name, "_tuned_") {
			out = append(out, w)
		}
	}
	return out
}

// V100Table is the file that V100 reads.
func V100Table() string { return v100 }

// Pages is how many pages of so many bytes the weights take.
func (w Weighted) Pages(page int64) int { return int((w.Weights + page - 1) / page) }

// Profile is the latency of any batch size up to 16, interpolated; it panics where Latencies are none.
func (w Weighted) Profile() *profile.Profile {
	p, err := profile.Interpolate(w.Latencies)
	if err != nil {
		panic(fmt.Sprintf("model %s: %v", w.Name, err))
	}
	return p
}

const weightedHeader = "model,input_kb,output_kb,weights_mb,transfer_ms,b1_ms,b2_ms,b4_ms,b8_ms,b16_ms"

// readWeighted reads a file, and refuses what Read would.
func readWeighted(text, name string) ([]Weighted, error) {
	var models []Weighted
	first := map[string]int{} // name -> line
	line := 0
	for row := range strings.Lines(text) {
		line++
		row = strings.TrimRight(row, "\r\n")
		if line == 1 {
			if row != weightedHeader {
				return nil, fmt.Errorf("%w: %s:1: header %q, must be %s", ErrInvalid, name, row, weightedHeader)
			}
			continue
		}
		w, err := parseWeighted(row)
		if err == nil && first[w.Name] != 0 {
			err = fmt.Errorf("model %q is in line %d already", w.Name, first[w.Name])
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s:%d: %w", ErrInvalid, name, line, err)
		}
		first[w.Name] = line
		models = append(models, w)
	}
	if len(models) == 0 {
		return nil, fmt.Errorf("%w: %s: no models, must be lines of %s", ErrInvalid, name, weightedHeader)
	}
	return models, nil
}

func parseWeighted(row string) (Weighted, error) {
	names, fields := strings.Split(weightedHeader, ","), strings.Split(row, ",")
	if len(fields) != len(names) {
		return Weighted{}, fmt.Errorf("%d columns, must be %d: %s", len(fields), len(names), weightedHeader)
	}
	if fields[0] == "" {
		return Weighted{}, errors.New("the model has no name")
	}
	var v [10]float64 // [0] is the name's
	for i := 1; i < len(fields); i++ {
		f, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || !(f > 0 && f <= millisMax) {
			return Weighted{}, fmt.Errorf("column %d: %s %q, must be a number above 0, up to %g", i+1, names[i], fields[i], millisMax)
		}
		v[i] = f
	}
	bytes := func(v, unit float64) int64 { return int64(math.Round(v * unit)) }
	w := Weighted{Name: fields[0], Input: bytes(v[1], 1e3), Output: bytes(v[2], 1e3), Weights: bytes(v[3], 1e6), Transfer: mono.FromMillis(v[4])}
	for i, b := range []int{1, 2, 4, 8, 16} {
		w.Latencies = append(w.Latencies, profile.Sample{Batch: b, Latency: mono.FromMillis(v[5+i])})
	}
	_, err := profile.Interpolate(w.Latencies)
	return w, err
}
