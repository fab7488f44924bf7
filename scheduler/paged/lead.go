package paged

import "github.com/symphony-serving/symphony/transport/mono"

// leads are how long before its exec a candidate is due, by the number of the model's holders.
//
// Where any GPU will do, a candidate that waits for its exec finds one idle, or its model learns to ask
// earlier (batching/opening.go). A model with one holder finds it busy as often as it is busy, its
// window is as narrow as alpha, and where models are many each has too few requests to learn
// from: deferred to the end, 200 models on two GPUs that were a tenth busy lost a tenth of
// their requests. So this is learnt from all models with as many holders: the longest that a candidate
// waited for a holder, from when it was due, forgotten little by little. What is learnt begins with the
// longest batch, which is how long a GPU is busy at least.
//
// A load's time is no such wait: it ends when it was said to (Floor).
//
// It costs deferral the lead, of an SLO that is many times that long. docs/decisions/0049 has what
// it gains.
//
// Rejected: to look ahead, when a GPU is granted, for candidates whose latest comes before the batch's end.
// It needs all candidates of a GPU in the order of their latest at each request, and of two that come
// due together it saves the first.
type leads struct {
	waited  [fewHolders]mono.Dur
	longest mono.Dur // batch
}

const (
	// fewHolders: of more one is nearly always idle, or none of all GPUs is.
	fewHolders = 3
	// leadMemory is how many waits it takes to forget most of one. A fourth of it forgets too soon what
	// comes once in a thousand; four times that keeps an overload's waits for too long.
	leadMemory = 4096
	// longestMemory is the same of batches.
	longestMemory = 1024
)

// of is the lead of a model with k holders.
func (l *leads) of(k int) mono.Dur {
	if k == 0 || k > fewHolders {
		return 0
	}
	return max(l.waited[k-1], l.longest/mono.Dur(k))
}

// wait takes the wait of a candidate for one of k holders.
func (l *leads) wait(k int, d mono.Dur) {
	if k > 0 && k <= fewHolders {
		w := &l.waited[k-1]
		*w = max(d, *w-*w/leadMemory)
	}
}

// ran takes the length of a batch.
func (l *leads) ran(d mono.Dur) { l.longest = max(d, l.longest-l.longest/longestMemory) }
