package policytest

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Tally counts what has become of the requests.
type Tally struct {
	Submitted int
	Served    int // Late ones too
	Late      int // ended after their deadline
	Dropped   [wire.ReasonCount]int
	Preempted int   // batches
	Sizes     []int // of the batches that ended
	digest    uint64
}

// Median is the median size of the batches that ended; 0: none did.
func (k *Tally) Median() int {
	if len(k.Sizes) == 0 {
		return 0
	}
	sizes := slices.Sorted(slices.Values(k.Sizes))
	return sizes[len(sizes)/2]
}

// BadRate is the share of requests that have not been served.
func (k *Tally) BadRate() float64 { return 1 - float64(k.Served)/float64(k.Submitted) }

// String sums it up.
func (k *Tally) String() string {
	text := fmt.Sprintf("%d submitted, %d served, %d late, %d preemptions", k.Submitted, k.Served, k.Late, k.Preempted)
	for i, n := range k.Dropped {
		if n > 0 {
			text += fmt.Sprintf(", %d %v", n, wire.Reason(i))
		}
	}
	return text
}

func (k *Tally) ended(r *Run) {
	k.Served += len(r.Requests)
	k.Sizes = append(k.Sizes, len(r.Requests))
	for i := range r.Requests {
		if r.End > r.Requests[i].Deadline {
			k.Late++
		}
	}
}

func (k *Tally) dropped(d *batching.Drop) {
	k.Dropped[d.Reason]++
	k.note(uint64(d.Reason), uint64(d.Request.ID))
}

func (k *Tally) preempted(r *Run) {
	k.Preempted++
	k.note(uint64(r.Batch))
}

func (k *Tally) dispatched(r *Run) {
	k.note(uint64(r.Batch), uint64(r.GPU), uint64(r.Exec), uint64(r.Until))
	for i := range r.Requests {
		k.note(uint64(r.Requests[i].ID))
	}
}

// note adds to the digest (FNV-1a, a word at a time): two runs with one digest
// have had the same effects in the same order.
func (k *Tally) note(words ...uint64) {
	for _, w := range words {
		k.digest = (k.digest ^ w) * 0x100000001b3
		k.digest ^= k.digest >> 32
	}
}
