//go:build cgo

package onnx

import (
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
		if err = s.warm(1, spec.MaxBatch); err != nil {
			s.Close()
			s = nil
		}
	})
	return s, err
}

func bytesOf(side []buffer) (n int) {
	for _, b := range side {
		n += b.item
	}
	return n
}
