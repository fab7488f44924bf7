//go:build cgo

package onnx

import (
	"fmt"
	"time"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/backend/warmup"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// OpenLater is Open while others serve: on a thread of the lowest priority. (Threads that ONNX
// Runtime makes for the session have the priority of the thread that makes them; where it is to
// have some they get that of executing threads.)
func OpenLater(path string, spec *catalog.ModelSpec, threads int) (s *Session, err error) {
	priority := nice.Most
	if threads > 1 {
		priority = niceness
	}
	nice.Run(priority, func() { s, err = Open(path, spec, threads) })
	return s, err
}

func bytesOf(side []buffer) (n int) {
	for _, b := range side {
		n += b.item
	}
	return n
}

// warmMost is the longest that a warm-up run of a session may take. One that takes longer is
// ended between two of its nodes.
const warmMost = time.Minute

// warm runs a session once, a batch of a size, on inputs that the model takes.
func (s *Session) warm(spec *catalog.ModelSpec, size int, in *warmup.Inputs) error {
	o, err := ort.NewRunOptions()
	if err != nil {
		return err
	}
	defer o.Destroy()
	var late error
	_, err = warmup.Try(in, func(error) bool { return late != nil }, func(in *warmup.Inputs) error {
		b := &executor.Batch{Size: size}
		for i := range size {
			item := make([]byte, bytesOf(s.inputs))
			in.Fill(spec.Inputs, i, item)
			b.Inputs, b.Outputs = append(b.Inputs, item), append(b.Outputs, make([]byte, bytesOf(s.outputs)))
		}
		ended := make(chan struct{})
		end := time.AfterFunc(warmMost, func() {
			defer close(ended)
			_ = o.Terminate() // else the run goes on to its own end
		})
		err := s.runWith(b, o)
		if !end.Stop() {
			<-ended // the options are in use until then
			late = fmt.Errorf("a warm-up run of a batch of %d has not ended after %v", size, warmMost)
			return late
		}
		return err
	})
	return err
}
