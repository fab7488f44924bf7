package repository

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// weightedColumns are those of Clockwork's Table 1: sizes of a request (not used here), of the weights, how long
// they take to a GPU, and the latencies of five batch sizes. It has no SLOs.
func weightedColumns() []string {
	return []string{"model", "input_kb", "output_kb", "weights_mb", "transfer_ms", "b1_ms", "b2_ms", "b4_ms", "b8_ms", "b16_ms"}
}

// weightedMax is the largest batch that such a table knows.
const weightedMax = 16

// weighted makes a model of a row with weights.
func (z Zoo) weighted(row []string, deviceType string) (Model, error) {
	v, err := numbers(row[1:])
	if err != nil {
		return Model{}, err
	}
	m := z.named(row[0], deviceType, weightedMax)
	switch {
	case z.SLO <= 0:
		return Model{}, errors.New("the table has no SLOs: give one (slo)")
	case m.Spec.MaxBatch > weightedMax:
		return Model{}, fmt.Errorf("max_batch is %d, the table has up to %d", m.Spec.MaxBatch, weightedMax)
	}
	var samples []profile.Sample
	for i, b := range []int{1, 2, 4, 8, weightedMax} {
		samples = append(samples, profile.Sample{Batch: b, Latency: mono.FromMillis(v[4+i])})
	}
	p, err := profile.Interpolate(samples)
	if err != nil {
		return Model{}, err
	}
	m.Spec.Profile = p.Doc()
	m.Spec.Profile.Table = m.Spec.Profile.Table[:m.Spec.MaxBatch]
	m.Static, m.LoadTime = int64(v[2]*1e6), mono.FromMillis(v[3])
	return m, nil
}
