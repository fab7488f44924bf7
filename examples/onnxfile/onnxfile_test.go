package onnxfile

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Every float16 is its own nearest, and what lies between two goes to the nearer one, or
// to the even one.
func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		v := catalog.FromHalf(uint16(h))
		if v != v {
			if got := ToHalf(v); got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
				t.Errorf("%#x became %#x, a number", h, got)
			}
			continue
		}
		if got := ToHalf(v); got != uint16(h) {
			t.Fatalf("%#x is %v and became %#x", h, v, got)
		}
		if h&0x7fff >= 0x7bff { // the largest, and infinity
			continue
		}
		next := catalog.FromHalf(uint16(h) + 1)
		middle := float32((float64(v) + float64(next)) / 2)
		even := uint16(h) + uint16(h)&1
		if got := ToHalf(middle); got != even {
			t.Fatalf("%v, between %#x and the next, became %#x, want %#x", middle, h, got, even)
		}
		if got := ToHalf(math.Nextafter32(middle, v)); got != uint16(h) {
			t.Fatalf("nearer to %#x became %#x", h, got)
		}
		if got := ToHalf(math.Nextafter32(middle, next)); got != uint16(h)+1 {
			t.Fatalf("nearer to the one after %#x became %#x", h, got)
		}
	}
	for v, want := range map[float32]uint16{65519: 0x7bff, 65520: 0x7c00, -1e30: 0xfc00, 1e-30: 0, -10000: 0xf0e2} {
		if got := ToHalf(v); got != want {
			t.Errorf("%v became %#x, want %#x", v, got, want)
		}
	}
}

// splitmix64 after its published reference outputs for seed 1234567.
func TestSplitmix(t *testing.T) {
	for k, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := Splitmix(1234567, uint64(k)); got != want {
			t.Errorf("output %d is %d, want %d", k, got, want)
		}
	}
}

func model(values Values, dims ...int) *Model {
	g := NewGraph("g")
	g.Constant("c", Float32, values, dims...)
	g.Constant("h", Float16, Numbers(1, -2), 2)
	g.Integers("i", []int64{-1}, 1)
	g.Node("Add", []string{"x", "c"}, "y", Ints("a", 1, 2), Float("b", 0.5))
	g.Input("x", Float32, 3)
	g.Output("y", Float32, 3)
	return &Model{Producer: "test", Graph: g}
}

// The bytes are those of the format, by hand.
func TestBytes(t *testing.T) {
	want := []byte{
		8, 8, // ir_version
		18, 4, 't', 'e', 's', 't', // producer_name
		58, 148, 1, // graph, 148 bytes:
		18, 1, 'g', // name
		42, 21, 8, 3, 16, 1, 66, 1, 'c', 74, 12, 0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, // c: dims 3, type 1, raw
		42, 13, 8, 2, 16, 10, 66, 1, 'h', 74, 4, 0, 60, 0, 192,
		42, 17, 8, 1, 16, 7, 66, 1, 'i', 74, 8, 255, 255, 255, 255, 255, 255, 255, 255,
		10, 42, 10, 1, 'x', 10, 1, 'c', 18, 1, 'y', 26, 1, 'y', 34, 3, 'A', 'd', 'd', // node: inputs, output, name, op
		42, 10, 10, 1, 'a', 64, 1, 64, 2, 160, 1, 7, // ints, type 7
		42, 11, 10, 1, 'b', 21, 0, 0, 0, 63, 160, 1, 1, // f, type 1
		90, 20, 10, 1, 'x', 18, 15, 10, 13, 8, 1, 18, 9, 10, 3, 18, 1, 'N', 10, 2, 8, 3, // x [N, 3]
		98, 20, 10, 1, 'y', 18, 15, 10, 13, 8, 1, 18, 9, 10, 3, 18, 1, 'N', 10, 2, 8, 3,
		66, 4, 10, 0, 16, 17, // opset_import
	}
	m := model(Numbers(1, 2, 3), 3)
	var got bytes.Buffer
	if n, err := m.WriteTo(&got); err != nil || n != int64(got.Len()) || n != m.Size() {
		t.Fatalf("%d bytes, said %d, and %d before: %v", got.Len(), n, m.Size(), err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got\n%v, want\n%v", got.Bytes(), want)
	}
}

// Values that do not fill the dimensions, or more, are an error, and nothing is left of the file.
func TestCountIsChecked(t *testing.T) {
	for _, n := range []int{2, 4} {
		path := filepath.Join(t.TempDir(), "m.onnx")
		_, err := model(Numbers(1, 2, 3), n).Save(path, "")
		if err == nil || !strings.Contains(err.Error(), "constant c has 3 values") {
			t.Errorf("%v", err)
		}
		if files, _ := os.ReadDir(filepath.Dir(path)); len(files) > 0 {
			t.Errorf("left: %v", files)
		}
	}
}

// A file above protobuf's limit is refused before a byte of it is made.
func TestSizeIsChecked(t *testing.T) {
	m := model(func(func([]float32)) { t.Error("values were asked for") }, 1<<15, 1<<14)
	if _, err := m.WriteTo(nil); err == nil || !strings.Contains(err.Error(), "at most 2147483647") {
		t.Errorf("%v", err)
	}
}

// Save writes what WriteTo does, in pieces of any length, and only what was pinned.
func TestSave(t *testing.T) {
	const n = 3 * chunk / 4 // three chunks
	m := model(func(emit func([]float32)) {
		for done, piece := 0, 1; done < n; piece = 3*piece + 1 {
			v := make([]float32, min(piece, n-done))
			for i := range v {
				v[i] = float32(done + i)
			}
			emit(v)
			done += len(v)
		}
	}, n)
	path := filepath.Join(t.TempDir(), "new", "m.onnx")
	want, err := m.Sum()
	if err != nil {
		t.Fatal(err)
	}
	var e *SumError
	if _, err := m.Save(path, "another"); !errors.As(err, &e) || e.Got != want || e.Want != "another" {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("another one was written")
	}
	if sum, err := m.Save(path, want); err != nil || sum != want {
		t.Errorf("%s, %v", sum, err)
	}
	if sum, err := SumFile(path); err != nil || sum != want {
		t.Errorf("%s, %v", sum, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != m.Size() || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := appendValue(nil, Float32, n-1)
	if !bytes.Contains(b, append(last, 42)) { // and then the next constant
		t.Error("the last value is not at its place")
	}
}
