// Package digits tests that the example is whole: its files, its labels, and
// the models' inputs and outputs. It needs no ONNX Runtime; that the answers
// are right and equal to ONNX Runtime's is tested end to end (cmd/symphony).
package digits

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/frontend/preprocess"
)

// rows reads images/labels.csv without its header.
func rows(t *testing.T) [][]string {
	t.Helper()
	f, err := os.Open("images/labels.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 21 || strings.Join(all[0], ",") != "file,label" {
		t.Fatalf("labels.csv has %d rows and the header %v, want file,label and 20", len(all)-1, all[0])
	}
	return all[1:]
}

// Every picture has a label, every label a picture, every digit two of them.
func TestSamples(t *testing.T) {
	count, listed := map[string]int{}, map[string]bool{}
	for _, r := range rows(t) {
		count[r[1]]++
		listed[r[0]] = true
		img := picture(t, r[0])
		if b := img.Bounds(); b.Dx() != 64 || b.Dy() != 64 {
			t.Errorf("%s is %dx%d, want 64x64", r[0], b.Dx(), b.Dy())
		}
	}
	for digit := range 10 {
		if n := count[fmt.Sprint(digit)]; n != 2 {
			t.Errorf("digit %d has %d pictures, want 2", digit, n)
		}
	}
	files, _ := filepath.Glob("images/*.png")
	for _, f := range files {
		if !listed[filepath.Base(f)] {
			t.Errorf("%s is not in labels.csv", f)
		}
	}
}

func picture(t *testing.T, name string) *image.Gray {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("images", name))
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	grey, ok := img.(*image.Gray)
	if !ok {
		t.Fatalf("%s is %T, want 8-bit grey", name, img)
	}
	return grey
}

// weight is the share of a pixel of an 8x8 grid, i, in pixel o after the
// enlarged picture is shrunk again: the triangle of data.py, shrink.
func weight(i, o int) float64 {
	sum, own := 0.0, 0.0
	centre := (float64(o)+0.5)*8 - 0.5
	for k := range 64 {
		w := max(0, 1-math.Abs(centre-float64(k))/8)
		sum += w
		if k/8 == i {
			own += w
		}
	}
	return own / sum
}

// The models were trained on what data.py takes preprocessing for: the live
// one must do the same, to one step of grey.
func TestPreprocessingIsWhatTrainingAssumed(t *testing.T) {
	spec := models(t)[0].Spec
	plan, err := preprocess.NewPlan(*spec.Image, spec.Inputs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows(t) {
		grey := picture(t, r[0])
		encoded, err := os.ReadFile(filepath.Join("images", r[0]))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, plan.Size())
		if err := plan.Into(got, encoded); err != nil {
			t.Fatal(err)
		}
		for p := range 64 {
			want := 0.0
			for q := range 64 {
				want += weight(q/8, p/8) * weight(q%8, p%8) * float64(grey.GrayAt(q%8*8, q/8*8).Y)
			}
			v := 255 * math.Float32frombits(binary.LittleEndian.Uint32(got[4*p:]))
			if math.Abs(float64(v)-want) > 1 {
				t.Errorf("%s: pixel %d is %.2f, training assumed %.2f", r[0], p, v, want)
			}
		}
	}
}

// models loads the repository; digits-wide is there only after `make models`.
func models(t *testing.T) []repository.Model {
	t.Helper()
	list, failed, err := repository.Load("models")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range failed {
		if !strings.Contains(err.Error(), "digits-wide") || !strings.Contains(err.Error(), "no such file") {
			t.Error(err)
		}
	}
	if len(list) == 0 || list[0].Spec.Name != "digits-cnn" {
		t.Fatal("digits-cnn is not in the repository")
	}
	return list
}

func TestConfigs(t *testing.T) {
	for _, m := range models(t) {
		if _, err := preprocess.NewPlan(*m.Spec.Image, m.Spec.Inputs[0]); err != nil {
			t.Errorf("%s: %v", m.Spec.Name, err)
		}
		for i, l := range m.Spec.Labels {
			if l != fmt.Sprint(i) {
				t.Errorf("%s: label %d is %q", m.Spec.Name, i, l)
			}
		}
		if len(m.Spec.Labels) != 10 {
			t.Errorf("%s: %d labels, want 10", m.Spec.Name, len(m.Spec.Labels))
		}
	}
}

// The files say what config.yaml says: FP32 image [N,1,8,8] to [N,10].
func TestModelFiles(t *testing.T) {
	for _, m := range models(t) {
		b, err := os.ReadFile(m.Path)
		if err != nil {
			t.Fatal(err)
		}
		graph := fields(t, b, 7)[0]
		in, out := fields(t, graph, 11), fields(t, graph, 12)
		if len(in) != 1 || len(out) != 1 {
			t.Fatalf("%s: %d inputs and %d outputs, want 1 and 1", m.Path, len(in), len(out))
		}
		if got := describe(t, in[0]); got != "image float [N 1 8 8]" {
			t.Errorf("%s: input %s", m.Path, got)
		}
		if got := describe(t, out[0]); got != "probabilities float [N 10]" {
			t.Errorf("%s: output %s", m.Path, got)
		}
	}
}

// fields are the length-delimited fields of a protobuf message by number.
func fields(t *testing.T, m []byte, number protowire.Number) (out [][]byte) {
	t.Helper()
	for len(m) > 0 {
		n, typ, size := protowire.ConsumeTag(m)
		if size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		m = m[size:]
		if size = protowire.ConsumeFieldValue(n, typ, m); size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		if n == number && typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(m)
			out = append(out, v)
		}
		m = m[size:]
	}
	return out
}

// varint is the first varint field of that number.
func varint(t *testing.T, m []byte, number protowire.Number) uint64 {
	t.Helper()
	for len(m) > 0 {
		n, typ, size := protowire.ConsumeTag(m)
		if n == number && typ == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(m[size:])
			return v
		}
		m = m[size+protowire.ConsumeFieldValue(n, typ, m[size:]):]
	}
	return 0
}

// describe is an ONNX ValueInfoProto as text.
func describe(t *testing.T, info []byte) string {
	t.Helper()
	tensor := fields(t, fields(t, info, 2)[0], 1)[0]
	element := map[uint64]string{1: "float"}[varint(t, tensor, 1)]
	var shape []string
	for _, dim := range fields(t, fields(t, tensor, 2)[0], 1) {
		if name := fields(t, dim, 2); len(name) > 0 {
			shape = append(shape, string(name[0]))
		} else {
			shape = append(shape, fmt.Sprint(varint(t, dim, 1)))
		}
	}
	return fmt.Sprintf("%s %s %v", fields(t, info, 1)[0], element, shape)
}
