package nets

import (
	"fmt"
	"math"
	"testing"

	"github.com/symphony-serving/symphony/examples/onnxfile"
)

// little are the architectures in little, with the SHA-256 of their files: a change of
// the writer, of the graphs or of the draw of the weights changes them.
func little() []struct {
	name string
	net  Net
	pins map[Precision]string
} {
	return []struct {
		name string
		net  Net
		pins map[Precision]string
	}{
		{"resnet", ResNet{Blocks: []int{2, 1}, Width: 16, Size: 32, Classes: 10}, map[Precision]string{FP32: "430706e560ed422b95d4bbbf3bda446556f8f747c3d86fa8fb462966eed29a3b", FP16: "621493d4d0d1eca5a3e789cc600b384d711ee1d2ad5c609996f30a929905ef22"}},
		{"mobilenet", MobileNet{Stem: 16, Blocks: []Block{{24, 1}, {32, 2}}, Size: 32, Classes: 10}, map[Precision]string{FP32: "1400e1b9abd84770b93764ce5b14071861a941c3f646f1ab4c0983e498b3e8ce", FP16: "c4b921e29684fd4e43796333579110a76da9fba9b29d56e35af3ae9f87988e98"}},
		{"encoder", Encoder{Layers: 2, Hidden: 32, Heads: 4, Inner: 64, Length: 8, Vocabulary: 50}, map[Precision]string{FP32: "9d1147bb50edc342952fece14df64a54e05911ef6c7f33ed1b0acf432af7eabe", FP16: "14162df9660e03b1a8116f3fa59a03f991f162f33f73c994d0dbbc1abebc930e"}},
	}
}

func TestFilesArePinned(t *testing.T) {
	for _, l := range little() {
		for p, want := range l.pins {
			if got, err := File(l.name, l.net, 1, p).Sum(); err != nil || got != want {
				t.Errorf("%s %s: SHA-256 %s, pinned %s, %v", l.name, p, got, want, err)
			}
		}
		if a, b := sum(t, l.net, 1), sum(t, l.net, 2); a == b {
			t.Errorf("%s: the seed does not matter", l.name)
		}
	}
}

func sum(t *testing.T, n Net, seed uint64) string {
	t.Helper()
	s, err := File("net", n, seed, FP32).Sum()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The zoo's files are as large as the networks' numbers of weights make them: 25.5, 4.2
// and 109 million, and half as large in FP16.
func TestSizes(t *testing.T) {
	want := map[string]float64{"resnet50": 25.53, "mobilenet": 4.22, "bert-base": 109.19}
	for _, m := range Zoo() {
		for p, bytes := range map[Precision]float64{FP32: 4, FP16: 2} {
			millions := float64(m.File(p).Size()) / bytes / 1e6
			if math.Abs(millions-want[m.Name]) > 0.02+0.01*want[m.Name] {
				t.Errorf("%s in %s: %.2f million weights, want %.2f", m.Name, p, millions, want[m.Name])
			}
		}
	}
}

// moments are the mean and the deviation of values.
func moments(v onnxfile.Values) (mean, deviation float64, rows [][]float32) {
	n, sum, squares := 0.0, 0.0, 0.0
	v(func(row []float32) {
		rows = append(rows, append([]float32(nil), row...))
		for _, x := range row {
			n, sum, squares = n+1, sum+float64(x), squares+float64(x)*float64(x)
		}
	})
	mean = sum / n
	return mean, math.Sqrt(squares/n - mean*mean), rows
}

// Weights have the mean and the deviation that they are drawn for, and dense filters sum
// to zero one by one.
func TestDraws(t *testing.T) {
	b := &builder{seed: 3}
	for name, c := range map[string]struct {
		values          onnxfile.Values
		mean, deviation float64
	}{
		"filters": {b.filters("w", 64, 576, 1.5), 0, 1.5 / 24},
		"matrix":  {b.matrix("m", 256, 100, 2), 0, 2.0 / 16},
		"spread":  {b.spread("s", 100, 100, 0.5), 0, 0.5},
		"around":  {b.around("a", 10000, 1, 0.2), 1, 0.2 / math.Sqrt(3)},
	} {
		mean, deviation, rows := moments(c.values)
		if math.Abs(mean-c.mean) > 0.03*c.deviation || math.Abs(deviation/c.deviation-1) > 0.02 {
			t.Errorf("%s: %.4f, deviation %.4f, want %.4f and %.4f", name, mean, deviation, c.mean, c.deviation)
		}
		if name != "filters" {
			continue
		}
		for i, row := range rows {
			if mean, _, _ := moments(onnxfile.Numbers(row...)); math.Abs(mean) > 1e-6 {
				t.Errorf("filter %d has a mean of %v", i, mean)
			}
		}
	}
	_, _, first := moments(b.around("a", 4, 0, 1))
	_, _, other := moments(b.around("b", 4, 0, 1))
	if fmt.Sprint(first) == fmt.Sprint(other) {
		t.Error("constants of two names are equal")
	}
}
