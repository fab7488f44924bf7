package paged

import "github.com/symphony-serving/symphony/transport/mono"

// leads are how long before its exec a candidate is due, by the number of the model's holders.
//
// Deferral waits until just before a batch would shrink, a window as narrow as alpha. With one holder
// it finds that one busy as often as it is busy, and where models are many each has too few requests
// to learn to ask earlier (batching/opening.go): deferred to the end, 200 models on two GPUs that
// were a tenth busy lost a tenth of their requests. So this is learnt from all models with as
// many holders: the longest that a candidate waited for a holder, from when it was due, forgotten little by
// little, and half as much again, for what comes once in 100,000 is longer than what came of late. What is learnt begins with the longest batch, which is how long a GPU is busy.
//
// A load's time is no such wait: it ends when it was said to (Floor).
//
// It costs 0 to 2 points of the GPUs' time, and spares deferral the part in a thousand of requests that it lost
// with six holders, too (docs/decisions/0049).
//
// Rejected: to look ahead, when a GPU is granted, for candidates whose latest comes before the batch's end.
// It needs all candidates of a GPU in the order of their latest at each request, and of two that come
// due together it saves the first.
type leads struct {
	waited  [leadClasses]mono.Dur
	longest mono.Dur // batch
	mean    mono.Dur // of late: see queued
}

const (
	// leadClasses: models with more holders are like those with so many.
	leadClasses = 16
	// leadMemory is how many waits it takes to forget most of one. A fourth of it forgets too soon what
	// comes once in a thousand; four times that keeps an overload's waits for too long.
	leadMemory = 4096
	// longestMemory is the same of batches.
	longestMemory = 1024
	// meanMemory is how many waits the mean is of.
	meanMemory = 64
	// queues: a load must end so many mean waits before the latest start that it is for, or half of the time
	// that is left: weights that come just in time find the GPU busy. One mean wait gains
	// two thirds of what four gain.
	queues = 4
)

// of is the lead of a model with k holders.
func (l *leads) of(k int) mono.Dur {
	if k == 0 {
		return 0
	}
	k = min(k, leadClasses)
	w := l.waited[k-1]
	return max(w+w/2, l.longest/mono.Dur(k))
}

// queued takes how long a candidate waited for a holder, from when it would have started.
func (l *leads) queued(d mono.Dur) { l.mean += (d - l.mean) / meanMemory }

// wait takes how much later than deferral would have started it a candidate found one of k holders.
func (l *leads) wait(k int, d mono.Dur) {
	if k > 0 {
		w := &l.waited[min(k, leadClasses)-1]
		*w = max(d, *w-*w/leadMemory)
	}
}

// ran takes the length of a batch.
func (l *leads) ran(d mono.Dur) { l.longest = max(d, l.longest-l.longest/longestMemory) }
