package cuda

import (
	"errors"
	"runtime"
	"slices"
	"testing"
)

// The list of a node's processors is read, and a node that is not there is an error.
func TestProcessors(t *testing.T) {
	for _, c := range []struct {
		list string
		want []int
	}{{"0-3,8-9\n", []int{0, 1, 2, 3, 8, 9}}, {"5\n", []int{5}}, {"\n", nil}, {"x,1-,2", []int{2}}, {"3-1", nil}} {
		if got := cpus(c.list); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.list, got, c.want)
		}
	}
	ended := make(chan error)
	go func() { // the thread ends with the goroutine
		runtime.LockOSThread()
		if near(1000) == nil {
			ended <- errors.New("a node that is not there is near")
			return
		}
		ended <- near(-1)
	}()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
