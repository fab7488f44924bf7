package warmup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

func specs(types ...catalog.DataType) (all []catalog.TensorSpec) {
	for i, t := range types {
		all = append(all, catalog.TensorSpec{Name: string(rune('a' + i)), Type: t, Shape: []int64{4}})
	}
	return all
}

// made is a setting over inputs, and what was bad.
func made(s *Setting, of []catalog.TensorSpec, files map[string][]byte) (*Inputs, string) {
	var said []string
	in := s.Make(of, func(path string, most int64) ([]byte, error) {
		data, ok := files[path]
		switch {
		case !ok:
			return nil, errors.New("there is no such file")
		case int64(len(data)) > most:
			return nil, errors.New("too large")
		}
		return data, nil
	}, func(field, format string, args ...any) {
		said = append(said, field+": "+fmt.Sprintf(format, args...))
	})
	return in, strings.Join(said, "\n")
}

// read is a number of a type, from its bytes.
func read(t catalog.DataType, b []byte) float64 {
	switch t {
	case catalog.Bool, catalog.Uint8:
		return float64(b[0])
	case catalog.Int8:
		return float64(int8(b[0]))
	case catalog.Int16:
		return float64(int16(binary.LittleEndian.Uint16(b)))
	case catalog.Uint16:
		return float64(binary.LittleEndian.Uint16(b))
	case catalog.Int32:
		return float64(int32(binary.LittleEndian.Uint32(b)))
	case catalog.Uint32:
		return float64(binary.LittleEndian.Uint32(b))
	case catalog.Int64:
		return float64(int64(binary.LittleEndian.Uint64(b)))
	case catalog.Uint64:
		return float64(binary.LittleEndian.Uint64(b))
	case catalog.FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case catalog.FP64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	h := binary.LittleEndian.Uint16(b) // FP16, normal numbers
	v := math.Ldexp(1+float64(h&0x3ff)/1024, int(h>>10&31)-15)
	if h>>10&31 == 0 {
		v = 0
	}
	if h&0x8000 != 0 {
		v = -v
	}
	return v
}

func allTypes() []catalog.DataType {
	return []catalog.DataType{catalog.Bool, catalog.Uint8, catalog.Uint16, catalog.Uint32, catalog.Uint64, catalog.Int8, catalog.Int16, catalog.Int32, catalog.Int64,
		catalog.FP16, catalog.FP32, catalog.FP64}
}

// Of each type, numbers lie in their range, reach both ends where they are whole, and are the same
// each time; other items have others.
func TestRandomOfEachType(t *testing.T) {
	for _, typ := range allTypes() {
		lo, hi := 1., 9.
		switch typ {
		case catalog.Bool:
			lo, hi = 0, 1
		case catalog.Int8, catalog.Int64, catalog.FP16, catalog.FP64:
			lo, hi = -5, -2
		}
		of := specs(typ)
		in, bad := made(&Setting{Inputs: map[string]Input{"a": {Random: []float64{lo, hi}}}}, of, nil)
		if bad != "" {
			t.Fatal(typ, bad)
		}
		least, most, n := hi, lo, typ.Size()
		seen := map[string]bool{}
		for item := range 200 {
			dst, again := make([]byte, 4*n), make([]byte, 4*n)
			in.Fill(of, item, dst)
			in.Fill(of, item, again)
			if string(dst) != string(again) {
				t.Fatalf("%s: item %d differs the second time", typ, item)
			}
			seen[string(dst)] = true
			for k := range 4 {
				v := read(typ, dst[k*n:])
				least, most = min(least, v), max(most, v)
			}
		}
		whole := !isFloat(typ)
		if least < lo || most > hi || whole && (least != lo || most != hi) || most-least < (hi-lo)/2 || len(seen) < 10 {
			t.Errorf("%s: from %g to %g, want within %g to %g; %d different items", typ, least, most, lo, hi, len(seen))
		}
	}
}

// A file's items follow each other, and begin again after the last; what the setting does not name
// is zeros.
func TestFile(t *testing.T) {
	of := specs(catalog.Uint8, catalog.Int16)
	in, bad := made(&Setting{Inputs: map[string]Input{"a": {File: "warmup/a"}}}, of, map[string][]byte{"warmup/a": {1, 2, 3, 4, 5, 6, 7, 8}})
	if bad != "" {
		t.Fatal(bad)
	}
	for item, want := range [][]byte{{1, 2, 3, 4}, {5, 6, 7, 8}, {1, 2, 3, 4}} {
		dst := []byte("xxxxyyyyyyyy")
		in.Fill(of, item, dst)
		if string(dst) != string(append(want, 0, 0, 0, 0, 0, 0, 0, 0)) {
			t.Errorf("item %d: %v", item, dst)
		}
	}
	if text := in.String(); !strings.Contains(text, "a of the file warmup/a") || !strings.Contains(text, "b zeros") {
		t.Errorf("%q", text)
	}
}

// The default is zeros, and then numbers that each type can have.
func TestDefault(t *testing.T) {
	var none *Setting
	in, bad := made(none, specs(catalog.FP32), nil)
	if in != nil || bad != "" || in.Print() != "" || in.String() != "zeros" {
		t.Fatalf("%v %q", in, bad)
	}
	of := specs(allTypes()...)
	size := 0
	for i := range of {
		size += int(of[i].ByteSize())
	}
	for i, other := range append([]*Inputs{nil}, in.Others()...) {
		dst := make([]byte, size)
		for k := range dst {
			dst[k] = 0xff
		}
		other.Fill(of, 3, dst)
		for k := range of {
			want := append([]float64{0}, guesses()...)[i]
			_, most := bounds(of[k].Type)
			if got := read(of[k].Type, dst); got != min(want, most) {
				t.Errorf("%v, %s: %g", other, of[k].Type, got)
			}
			dst = dst[of[k].ByteSize():]
		}
	}
}

func TestSettingIsRefused(t *testing.T) {
	of := specs(catalog.Int8, catalog.FP16, catalog.Bool, catalog.Uint64)
	files := map[string][]byte{"odd": {1, 2, 3}, "empty": {}, "two": {0, 1, 2, 0}, "large": make([]byte, FilesMax+4)}
	for want, s := range map[string]map[string]Input{
		"warmup.inputs: is empty":                              {},
		`"z" is no input of the model; it has [a b c d]`:       {"z": {Zeros: true}},
		"warmup.inputs.a: has 0 of zeros":                      {"a": {}},
		"warmup.inputs.b: has 2 of zeros":                      {"b": {Zeros: true, File: "odd"}},
		"warmup.inputs.a: random: [1], must be":                {"a": {Random: []float64{1}}},
		"[3 2], must be [LEAST, LARGEST]":                      {"a": {Random: []float64{3, 2}}},
		"[-129 0], must be within -128 to 127":                 {"a": {Random: []float64{-129, 0}}},
		"[0 65505], must be within -65504 to 65504":            {"b": {Random: []float64{0, 65505}}},
		"[0 2], must be within 0 to 1, which is what BOOL has": {"c": {Random: []float64{0, 2}}},
		"[-1 1], must be within 0 to 9.0":                      {"d": {Random: []float64{-1, 1}}},
		"[0.2 0.8] has no whole number":                        {"d": {Random: []float64{.2, .8}}},
		"file odd has 3 bytes, must have a multiple of 4":      {"a": {File: "odd"}},
		"file empty has 0 bytes":                               {"a": {File: "empty"}},
		"file none: there is no such file":                     {"a": {File: "none"}},
		"file large: too large":                                {"a": {File: "large"}},
		"file two: byte 2 is 2, and of BOOL":                   {"c": {File: "two"}},
	} {
		if _, bad := made(&Setting{Inputs: s}, of, files); !strings.Contains(bad, want) {
			t.Errorf("%q is missing in %q", want, bad)
		}
	}
}

// The print is of all that decides what runs get.
func TestPrint(t *testing.T) {
	seen := map[string]string{}
	for name, c := range map[string]struct {
		input Input
		data  string
	}{"zeros": {Input{Zeros: true}, ""}, "random": {Input{Random: []float64{1, 2}}, ""}, "wider": {Input{Random: []float64{1, 3}}, ""},
		"file": {Input{File: "f"}, "abcd"}, "other bytes": {Input{File: "f"}, "abce"}} {
		in, bad := made(&Setting{Inputs: map[string]Input{"a": c.input}}, specs(catalog.Uint8), map[string][]byte{"f": []byte(c.data)})
		if bad != "" || in.Print() == "" || seen[in.Print()] != "" {
			t.Errorf("%s and %q have print %q; %s", name, seen[in.Print()], in.Print(), bad)
		}
		seen[in.Print()] = name
	}
}

// Runs are tried on one input after the other; an error that is not of inputs ends that, and so
// does one on inputs of the setting.
func TestTry(t *testing.T) {
	broken, lost := errors.New("integer modulo by zero"), errors.New("lost")
	final := func(err error) bool { return errors.Is(err, lost) }
	failing := func(times int, with error) (func(*Inputs) error, *int) {
		n := 0
		return func(*Inputs) error {
			if n++; n <= times {
				return with
			}
			return nil
		}, &n
	}
	run, n := failing(2, broken)
	if in, err := Try(nil, final, run); err != nil || in.String() != "inputs of 10" || *n != 3 {
		t.Errorf("%v, %v after %d runs", in, err, *n)
	}
	run, n = failing(99, broken)
	var failed *FailedError
	if _, err := Try(nil, final, run); !errors.As(err, &failed) || !errors.Is(err, broken) || *n != 6 ||
		!strings.Contains(err.Error(), "warm-up run on zeros failed, and on inputs of 1, 10, 100, 1000 and 10000: set warmup in config.yaml") {
		t.Errorf("%v after %d runs", err, *n)
	}
	run, n = failing(99, lost)
	if _, err := Try(nil, final, run); err != lost || *n != 1 {
		t.Errorf("%v after %d runs", err, *n)
	}
	set, _ := made(&Setting{Inputs: map[string]Input{"a": {Random: []float64{5, 6}}}}, specs(catalog.Int8), nil)
	run, n = failing(99, broken)
	if _, err := Try(set, final, run); !errors.As(err, &failed) || *n != 1 || !strings.Contains(err.Error(), "a random in 5 to 6) failed: correct warmup") {
		t.Errorf("%v after %d runs", err, *n)
	}
}
