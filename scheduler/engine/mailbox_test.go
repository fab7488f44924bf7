package engine

import (
	"runtime"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// One side writes as fast as it can, the other takes when it pleases: mails come
// whole and in order, the last one comes, and no answer is lost or doubled,
// although most candidates are replaced unseen.
func TestMailbox(t *testing.T) {
	const mails, every = 200_000, 7 // each seventh mail has an answer; the next waits until it was taken
	box := newMailbox(false)
	taken := make(chan int, 1) // answers, as the rank's grants: one under way at a time
	done := make(chan struct{})
	go func() {
		defer close(done)
		answers, size := 0, 0
		for size < mails {
			m := box.take()
			if m == nil {
				runtime.Gosched()
				continue
			}
			if int(m.candidate.Size) <= size || int32(m.candidate.Exec) != m.candidate.Size {
				t.Errorf("candidate %+v after that of size %d", m.candidate, size)
				return
			}
			size = int(m.candidate.Size)
			if !m.answered {
				continue
			}
			answers++
			if int(m.answer.Batch) != answers || m.answer.Grant.GPU != wire.GPUID(answers) {
				t.Errorf("answer %+v, want the one with number %d", m.answer, answers)
				return
			}
			taken <- answers
		}
		if answers != mails/every {
			t.Errorf("%d answers came, want %d", answers, mails/every)
		}
	}()
	n := 0
	for i := 1; i <= mails; i++ {
		c := batching.Candidate{Batch: batching.Batch{Size: int32(i)}, Exec: mono.Time(i)}
		if i%every != 0 {
			box.put(nil, &c)
			continue
		}
		n++
		box.put(&rank.Answer{Batch: wire.BatchID(n), Grant: rank.Grant{GPU: wire.GPUID(n)}}, &c)
		select {
		case <-taken:
		case <-done:
			return
		}
	}
	<-done
}
