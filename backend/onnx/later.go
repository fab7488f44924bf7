//go:build cgo

package onnx

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// nicest is the priority of who loads models while others run: what is left over.
const nicest = 19

// OpenLater is Open while others serve: on a thread of the lowest priority, which ends with it.
// The model has run when it comes back, its smallest batch and its largest. (Threads that ONNX
// Runtime makes for it have the priority of who makes them; where it is to have some they get
// that of executing threads.)
func OpenLater(path string, spec *catalog.ModelSpec, threads int) (*Session, error) {
	type opened struct {
		s   *Session
		err error
	}
	back := make(chan opened)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		nice := nicest
		if threads > 1 {
			nice = niceness
		}
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice)
		s, err := Open(path, spec, threads)
		if err == nil {
			if err = s.warm(spec); err != nil {
				s.Close()
				s = nil
			}
		}
		back <- opened{s, err}
	}()
	o := <-back
	return o.s, o.err
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
