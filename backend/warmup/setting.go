package warmup

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Setting is warmup in config.yaml. An input that it does not name is zeros.
type Setting struct {
	Inputs map[string]Input `yaml:"inputs"`
}

// Input says how one input is made: exactly one field is set.
type Input struct {
	Zeros  bool      `yaml:"zeros"`
	Random []float64 `yaml:"random"` // least and largest number, both included
	File   string    `yaml:"file"`   // in the model's folder: raw little-endian numbers, one item or several
}

// FilesMax bounds the files of a model's setting, together, bytes.
const FilesMax = 64 << 20

// Make checks a setting against a model's inputs, and reads its files: read has one by its path
// in the model's folder, and refuses one of more than so many bytes. bad gets each problem,
// with the setting's field. A nil setting is the default.
func (s *Setting) Make(specs []catalog.TensorSpec, read func(path string, most int64) ([]byte, error), bad func(field, format string, args ...any)) *Inputs {
	if s == nil {
		return nil
	}
	if len(s.Inputs) == 0 {
		bad("warmup.inputs", "is empty: name inputs, as in {inputs: {x: {random: [0, 1]}}}")
		return nil
	}
	for _, name := range sortedNames(s.Inputs) {
		if !slices.ContainsFunc(specs, func(t catalog.TensorSpec) bool { return t.Name == name }) {
			bad("warmup.inputs", "%q is no input of the model; it has %v", name, namesOf(specs))
		}
	}
	in := &Inputs{}
	print := sha256.New()
	left := int64(FilesMax)
	for i := range specs {
		t := tensor{name: specs[i].Name}
		if set, ok := s.Inputs[t.name]; ok {
			field := "warmup.inputs." + t.name
			t.take(&set, &specs[i], func(path string) ([]byte, error) {
				data, err := read(path, left)
				left -= int64(len(data))
				return data, err
			}, func(format string, args ...any) { bad(field, format, args...) })
		}
		fmt.Fprintf(print, "%q %d %g %g %d\n", t.name, t.kind, t.lo, t.hi, len(t.data))
		print.Write(t.data)
		in.tensors = append(in.tensors, t)
	}
	in.print = hex.EncodeToString(print.Sum(nil)[:16])
	return in
}

// take has a tensor made as its setting says.
func (t *tensor) take(set *Input, spec *catalog.TensorSpec, read func(string) ([]byte, error), bad func(format string, args ...any)) {
	if n := btoi(set.Zeros) + btoi(set.Random != nil) + btoi(set.File != ""); n != 1 {
		bad("has %d of zeros: true, random: [LEAST, LARGEST] and file: PATH, must have one", n)
		return
	}
	switch {
	case set.Random != nil:
		t.kind = random
		t.takeRange(set.Random, spec, bad)
	case set.File != "":
		t.kind, t.file = file, set.File
		data, err := read(set.File)
		if err != nil {
			bad("file %s: %v", set.File, err)
			return
		}
		if item := spec.ByteSize(); item < 1 || len(data) == 0 || int64(len(data))%item != 0 {
			bad("file %s has %d bytes, must have a multiple of %d: raw numbers of one item, or of several, in little-endian order", set.File, len(data), item)
			return
		}
		if at := slices.IndexFunc(data, func(b byte) bool { return b > 1 }); spec.Type == catalog.Bool && at >= 0 {
			bad("file %s: byte %d is %d, and of BOOL each is 0 or 1", set.File, at, data[at])
			return
		}
		t.data = data
	}
}

func (t *tensor) takeRange(r []float64, spec *catalog.TensorSpec, bad func(format string, args ...any)) {
	if len(r) != 2 || math.IsNaN(r[0]) || math.IsNaN(r[1]) || r[0] > r[1] {
		bad("random: %v, must be [LEAST, LARGEST]", r)
		return
	}
	lo, hi := bounds(spec.Type)
	if r[0] < lo || r[1] > hi {
		bad("random: %v, must be within %g to %g, which is what %s has here", r, lo, hi, spec.Type)
		return
	}
	if !isFloat(spec.Type) && math.Ceil(r[0]) > math.Floor(r[1]) {
		bad("random: %v has no whole number, and %s has no others", r, spec.Type)
		return
	}
	t.lo, t.hi = r[0], r[1]
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func sortedNames(of map[string]Input) []string {
	var all []string
	for name := range of {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func namesOf(specs []catalog.TensorSpec) (all []string) {
	for i := range specs {
		all = append(all, specs[i].Name)
	}
	return all
}
