//go:build cgo

package onnx

import (
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// OpenLater is Open while others serve: on a thread of the lowest priority. The model has run
// when it comes back, its smallest batch and its largest. (Threads that ONNX Runtime makes for it
// have the priority of who makes them; where it is to have some they get that of executing
// threads.)
func OpenLater(path string, spec *catalog.ModelSpec, threads int) (s *Session, err error) {
	priority := nice.Most
	if threads > 1 {
		priority = niceness
	}
	nice.Run(priority, func() {
		if s, err = Open(path, spec, threads); err != nil {
			return
		}
		if err = s.warm(spec); err != nil {
			s.Close()
			s = nil
		}
	})
	return s, err
}

// warm runs it.
func (s *Session) warm(spec *catalog.ModelSpec) error {
	for _, n := range []int{1, spec.MaxBatch} {
		b := &executor.Batch{Size: n}
		for range n {
			b.Inputs, b.Outputs = append(b.Inputs, make([]byte, bytesOf(s.inputs))), append(b.Outputs, make([]byte, bytesOf(s.outputs)))
		}
		if err := s.Run(b); err != nil {
			return err
		}
	}
	return nil
}

func bytesOf(side []buffer) (n int) {
	for _, b := range side {
		n += b.item
	}
	return n
}
