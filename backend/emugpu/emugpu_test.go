package emugpu

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

func line(t *testing.T) []*profile.Profile {
	t.Helper()
	p, err := profile.Linear(mono.Millisecond, 5*mono.Millisecond, 16)
	if err != nil {
		t.Fatal(err)
	}
	return []*profile.Profile{p}
}

// Two hundred devices on one clock: each batch takes what its profile says, up
// to the jitter and what the machine makes the clock late, never less, and ends once.
func TestManyDevices(t *testing.T) {
	defer goleak.VerifyNone(t)
	const devices, jitter = 200, 0.5
	clock := NewClock(3)
	var wait sync.WaitGroup
	var mu sync.Mutex
	var worst mono.Dur
	for i := range devices {
		d := clock.NewDevice(line(t), jitter)
		size := 1 + i%16
		planned := mono.Dur(size)*mono.Millisecond + 5*mono.Millisecond
		runs := 0
		b := &executor.Batch{Size: size}
		wait.Add(3)
		b.Finish = func(start, end mono.Time, err error) {
			length := end.Sub(start)
			late := length - (planned + planned/2) // beyond the longest that was drawn
			if length < planned || late > mono.Second || end > mono.Now() || err != nil {
				t.Errorf("a batch of %d took %v, planned %v, %v", size, length, planned, err)
			}
			mu.Lock()
			worst = max(worst, late)
			mu.Unlock()
			if runs++; runs < 3 {
				d.Launch(b)
			}
			wait.Done()
		}
		d.Launch(b)
	}
	wait.Wait()
	clock.Close()
	t.Logf("the latest of %d ended %v after the longest that it could take", 3*devices, worst)
}

func TestOutputsAreTheInputs(t *testing.T) {
	clock := NewClock(1)
	defer clock.Close()
	d := clock.NewDevice(line(t), 0)
	done := make(chan struct{})
	b := &executor.Batch{Size: 2, Inputs: [][]byte{{1, 2}, {3}}, Outputs: [][]byte{make([]byte, 5), make([]byte, 2)},
		Finish: func(mono.Time, mono.Time, error) { close(done) }}
	d.Launch(b)
	<-done
	if string(b.Outputs[0]) != "\x01\x02\x01\x02\x01" || string(b.Outputs[1]) != "\x03\x03" {
		t.Errorf("outputs %v", b.Outputs)
	}
}

func TestCloseForgetsTheBatch(t *testing.T) {
	defer goleak.VerifyNone(t)
	clock := NewClock(1)
	d := clock.NewDevice(line(t), 0)
	d.Launch(&executor.Batch{Size: 1, Finish: func(mono.Time, mono.Time, error) { t.Error("finished after Close") }})
	d.Close()
	clock.Close()
}
