package oip

import (
	"slices"
	"unicode/utf8"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Limits of a message.
const (
	DepthMax   = 100 // levels of nesting in JSON
	TensorsMax = 256 // inputs, and outputs asked for
	DimsMax    = 32  // dimensions of a tensor

	PriorityMax = 255 // the last one
)

// PriorityOf takes parameters.priority: 1 goes first, PriorityMax last, and 0 is the default.
func PriorityOf(n uint64) (uint8, error) {
	if n > PriorityMax {
		return 0, Errorf("parameters.priority", "%d, must be 1 (the first) to %d, or 0 for the default", n, PriorityMax)
	}
	return uint8(n), nil
}

// The values of parameters.class.
const (
	ClassLatency    = "latency" // the default
	ClassBestEffort = "best_effort"
)

// BestEffort takes parameters.class: whether it is that of best effort.
func BestEffort(class []byte) (bool, error) {
	switch string(class) {
	case ClassLatency:
		return false, nil
	case ClassBestEffort:
		return true, nil
	}
	return false, Errorf("parameters.class", "%.40q, must be %q (the default) or %q", class, ClassLatency, ClassBestEffort)
}

// Request is an infer request. It aliases the body that it was parsed from.
type Request struct {
	ID            []byte // nil: not given
	Timeout       int64  // parameters.timeout, microseconds; 0: not given
	Priority      uint8  // parameters.priority: 1 goes first, 255 last; 0: the default
	BestEffort    bool   // parameters.class
	Details       bool   // parameters.details: the reply shall tell what symphony explain takes
	BinaryOutputs bool   // parameters.binary_data_output: all outputs as binary
	Inputs        []Input
	Outputs       []Output // those asked for, in order; none: all
}

// Region is where a tensor lies in shared memory.
type Region struct {
	Name   []byte // nil: it does not
	Offset int64
	Size   int64
	sized  bool
}

// Input is one tensor of a request: Binary, JSON or in a Region, never two of them.
type Input struct {
	Name     []byte
	Type     catalog.DataType
	Shape    []int64
	Binary   []byte // little-endian; nil: the tensor is JSON
	JSON     []byte // the undecoded array
	Region   Region
	from     int   // where JSON begins in the message
	size     int64 // parameters.binary_data_size; -1: not given
	keysSeen uint8
}

// Output is an output asked for.
type Output struct {
	Name       []byte
	Binary     bool
	BinarySet  bool  // Binary was given; otherwise Request.BinaryOutputs holds
	Classes    int64 // parameters.classification: the k highest as "value:index:label"; 0: the tensor
	Region     Region
	parameters bool
}

// Reset empties r for the next message and keeps its memory.
func (r *Request) Reset() {
	*r = Request{Inputs: r.Inputs[:0], Outputs: r.Outputs[:0]}
}

// ParseRequest reads the JSON header of a message and cuts the binary tensors
// behind it. binary is nil when the message has no such part.
func (r *Request) ParseRequest(header, binary []byte) error {
	if err := r.ParseHeader(header); err != nil {
		return err
	}
	return r.cutBinary(binary)
}

// BinarySize is how many bytes of the message's binary part the tensor has; -1: it is
// JSON.
func (t *Input) BinarySize() int64 { return t.size }

// ParseHeader is ParseRequest for those who have the binary part not yet, and will check
// it themselves: inputs with a BinarySize have no data.
func (r *Request) ParseHeader(header []byte) error {
	r.Reset()
	if !utf8.Valid(header) {
		return Errorf("", "the JSON is not UTF-8")
	}
	s := scanner{b: header, at: place{index: -1, element: -1}}
	var seen uint8
	err := s.object(func(key []byte) error { return r.topField(&s, key, &seen) })
	if err != nil {
		return err
	}
	if s.ws(); s.i != len(s.b) {
		return s.fail("the JSON has bytes after its end, at byte %d", s.i)
	}
	if seen&keyInputs == 0 {
		return Errorf("inputs", "missing")
	}
	if len(r.Inputs) == 0 {
		return Errorf("inputs", "empty")
	}
	return r.duplicates()
}

const (
	keyID = 1 << iota
	keyParameters
	keyInputs
	keyOutputs
)

const (
	keyName = 1 << iota
	keyShape
	keyType
	keyData
	keyInputParameters
)

// once notes a key of an object and refuses its second coming.
func once(s *scanner, seen *uint8, bit uint8) error {
	if *seen&bit != 0 {
		return s.fail("given twice")
	}
	*seen |= bit
	return nil
}

func (r *Request) topField(s *scanner, key []byte, seen *uint8) (err error) {
	s.at = place{index: -1, element: -1}
	var bit uint8
	switch string(key) {
	case "id":
		s.at.key, bit = "id", keyID
	case "parameters":
		s.at.key, bit = "parameters", keyParameters
	case "inputs":
		s.at.key, bit = "inputs", keyInputs
	case "outputs":
		s.at.key, bit = "outputs", keyOutputs
	default:
		return s.skip() // later versions of the protocol may add keys
	}
	if err := once(s, seen, bit); err != nil {
		return err
	}
	switch bit {
	case keyID:
		r.ID, err = s.text()
	case keyParameters:
		s.at.section = "parameters"
		err = s.object(func(key []byte) error { return r.parameter(s, key) })
	case keyInputs:
		err = s.array(func(i int) error { return r.input(s, i) })
	case keyOutputs:
		err = s.array(func(i int) error { return r.output(s, i) })
	}
	s.at = place{index: -1, element: -1}
	return err
}

func (r *Request) parameter(s *scanner, key []byte) (err error) {
	s.at = place{section: "parameters", index: -1, element: -1}
	switch string(key) {
	case "timeout":
		s.at.key = "timeout"
		r.Timeout, err = s.natural()
	case "priority":
		s.at.key = "priority"
		var n int64
		if n, err = s.natural(); err == nil {
			r.Priority, err = PriorityOf(uint64(n))
		}
	case "class":
		s.at.key = "class"
		var class []byte
		if class, err = s.text(); err == nil {
			r.BestEffort, err = BestEffort(class)
		}
	case "details":
		s.at.key = "details"
		r.Details, err = s.boolean()
	case "binary_data_output":
		s.at.key = "binary_data_output"
		r.BinaryOutputs, err = s.boolean()
	default:
		err = s.skip()
	}
	return err
}

func (r *Request) input(s *scanner, i int) error {
	s.at = place{section: "inputs", index: i, element: -1}
	if i >= TensorsMax {
		return s.fail("more than %d inputs", TensorsMax)
	}
	if len(r.Inputs) < cap(r.Inputs) {
		r.Inputs = r.Inputs[:i+1] // keeps the old entry's Shape for its memory
	} else {
		r.Inputs = append(r.Inputs, Input{})
	}
	t := &r.Inputs[i]
	*t = Input{Shape: t.Shape[:0], size: -1}
	if err := s.object(func(key []byte) error { return t.field(s, i, key) }); err != nil {
		return err
	}
	s.at = place{section: "inputs", index: i, element: -1}
	return t.complete(s)
}

func (t *Input) field(s *scanner, i int, key []byte) (err error) {
	s.at = place{section: "inputs", index: i, element: -1}
	var bit uint8
	switch string(key) {
	case "name":
		s.at.key, bit = "name", keyName
	case "shape":
		s.at.key, bit = "shape", keyShape
	case "datatype":
		s.at.key, bit = "datatype", keyType
	case "data":
		s.at.key, bit = "data", keyData
	case "parameters":
		s.at.key, bit = "parameters", keyInputParameters
	default:
		return s.skip()
	}
	if err := once(s, &t.keysSeen, bit); err != nil {
		return err
	}
	switch bit {
	case keyName:
		t.Name, err = s.text()
	case keyShape:
		err = s.array(func(j int) error { return t.dim(s, j) })
	case keyType:
		err = t.datatype(s)
	case keyData:
		t.JSON, err = s.data()
		t.from = s.i - len(t.JSON)
	case keyInputParameters:
		err = s.object(func(key []byte) error { return t.parameter(s, key) })
	}
	return err
}

func (t *Input) dim(s *scanner, j int) error {
	s.at.element = j
	if j >= DimsMax {
		return s.fail("more than %d dimensions", DimsMax)
	}
	d, err := s.natural()
	t.Shape = append(t.Shape, d)
	s.at.element = -1
	return err
}

func (t *Input) datatype(s *scanner) error {
	name, err := s.text()
	if err != nil {
		return err
	}
	var ok bool
	if t.Type, ok = typeOf(name); !ok {
		if string(name) == string(catalog.Bytes) {
			return s.fail("BYTES (text) is not served: models here take numbers, so turn text into them before it is sent")
		}
		return s.fail("%q is no type served here", name)
	}
	return nil
}

// typeOf allocates nothing: the result is one of the catalogue's constants.
func typeOf(name []byte) (catalog.DataType, bool) {
	for _, t := range [...]catalog.DataType{catalog.FP32, catalog.Uint8, catalog.FP16, catalog.FP64, catalog.Int64,
		catalog.Int32, catalog.Bool, catalog.Int8, catalog.Int16, catalog.Uint16, catalog.Uint32, catalog.Uint64} {
		if string(name) == string(t) {
			return t, true
		}
	}
	return "", false
}

func (t *Input) parameter(s *scanner, key []byte) (err error) {
	i := s.at.index
	s.at = place{section: "inputs", index: i, key: "parameters", element: -1}
	switch string(key) {
	case "binary_data_size":
		s.at.key = "parameters.binary_data_size"
		if t.size >= 0 {
			return s.fail("given twice")
		}
		t.size, err = s.natural()
	default:
		err = t.Region.parameter(s, key)
	}
	return err
}

// parameter reads one of those that say where a tensor lies, or skips it.
func (r *Region) parameter(s *scanner, key []byte) (err error) {
	switch string(key) {
	case "shared_memory_region":
		s.at.key = "parameters.shared_memory_region"
		if r.Name, err = s.text(); err == nil && len(r.Name) == 0 {
			err = s.fail("empty")
		}
	case "shared_memory_byte_size":
		s.at.key = "parameters.shared_memory_byte_size"
		r.Size, err = s.natural()
		r.sized = true
	case "shared_memory_offset":
		s.at.key = "parameters.shared_memory_offset"
		r.Offset, err = s.natural()
	default:
		err = s.skip()
	}
	return err
}

// complete checks what an input must have; s stands at the input.
func (t *Input) complete(s *scanner) error {
	missing := func(key string) error {
		s.at.key = key
		return s.fail("missing")
	}
	switch {
	case t.keysSeen&keyName == 0:
		return missing("name")
	case t.keysSeen&keyShape == 0:
		return missing("shape")
	case t.keysSeen&keyType == 0:
		return missing("datatype")
	case t.Region.Name != nil && !t.Region.sized:
		return missing("parameters.shared_memory_byte_size")
	case t.Region.Name != nil && (t.JSON != nil || t.size >= 0):
		s.at.key = "parameters.shared_memory_region"
		return s.fail("given, and data as well; one of them")
	case t.JSON == nil && t.size < 0 && t.Region.Name == nil:
		return missing("data")
	case t.JSON != nil && t.size >= 0:
		s.at.key = "data"
		return s.fail("given in JSON and as binary_data_size; one of them")
	}
	if _, ok := Elements(t.Shape); !ok {
		s.at.key = "shape"
		return s.fail("its number of elements overflows")
	}
	return nil
}

// Elements is the product of a shape; false when it overflows.
func Elements(shape []int64) (int64, bool) {
	n := int64(1)
	for _, d := range shape {
		if d > 0 && n > (1<<62)/d {
			return 0, false
		}
		n *= max(d, 1)
	}
	if slices.Contains(shape, 0) {
		return 0, true
	}
	return n, true
}

func (r *Request) duplicates() error {
	for i := range r.Inputs {
		for j := range r.Inputs[:i] {
			if string(r.Inputs[i].Name) == string(r.Inputs[j].Name) {
				return Errorf(Field("inputs", i, "name"), "%q is given twice", r.Inputs[i].Name)
			}
		}
	}
	for i := range r.Outputs {
		for j := range r.Outputs[:i] {
			if string(r.Outputs[i].Name) == string(r.Outputs[j].Name) {
				return Errorf(Field("outputs", i, "name"), "%q is asked for twice", r.Outputs[i].Name)
			}
		}
	}
	return nil
}

// Field is the path of a tensor's field, for errors.
func Field(section string, index int, key string) string {
	return (&place{section: section, index: index, key: key, element: -1}).String()
}
