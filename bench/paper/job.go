package paper

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/bench/sim"
)

// Job is something to compute, once.
type Job[T any] struct {
	Kind   string  // what Run does with the description
	About  any     // describes it; its JSON is the key of the result
	Weight float64 // how long it takes, against the others; 0 means 1
	// Run computes the result, which must survive JSON. stop says whether to
	// give up.
	Run func(stop func() bool) (T, error)
}

func (j *Job[T]) key() (string, error) {
	key, err := json.Marshal(struct {
		Kind  string `json:"kind"`
		Core  int    `json:"core"`
		About any    `json:"about"`
	}{j.Kind, sim.CoreVersion, j.About})
	if err != nil {
		return "", fmt.Errorf("job %s: %w", j.Kind, err)
	}
	return string(key), nil
}

func (j *Job[T]) weight() float64 {
	if j.Weight > 0 {
		return j.Weight
	}
	return 1
}

// Each computes the jobs, several at a time, in the order given; results come
// back in that order. What has been computed before is taken from the store.
// Two jobs of one description are computed once.
func Each[T any](s *Session, jobs []Job[T]) ([]T, error) {
	keys := make([]string, len(jobs))
	var missing []int
	seen := map[string]bool{}
	for i := range jobs {
		key, err := jobs[i].key()
		if err != nil {
			return nil, err
		}
		keys[i] = key
		if _, ok := s.store.Find(key); ok {
			s.progress.expect(0, true)
		} else if !seen[key] {
			seen[key] = true
			missing = append(missing, i)
			s.progress.expect(jobs[i].weight(), false)
		}
	}
	if err := compute(s, jobs, keys, missing); err != nil {
		return nil, err
	}
	out := make([]T, len(jobs))
	for i, key := range keys {
		raw, _ := s.store.Find(key)
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: result of %s: %w", s.store.Path(), key, err)
		}
	}
	return out, nil
}

// compute runs jobs[i] for each i of missing and stores the results. The first
// error ends it.
func compute[T any](s *Session, jobs []Job[T], keys []string, missing []int) error {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	defer s.progress.watch()()
	queue := make(chan int)
	var wait sync.WaitGroup
	for range max(1, s.opts.Parallel) {
		wait.Go(func() {
			for i := range queue {
				result, err := jobs[i].Run(func() bool { return ctx.Err() != nil })
				if err == nil {
					err = keep(s, keys[i], result)
				}
				if err != nil {
					cancel(fmt.Errorf("job %s: %w", keys[i], err))
					continue
				}
				s.progress.done(jobs[i].weight())
			}
		})
	}
	for _, i := range missing {
		if ctx.Err() != nil {
			break
		}
		select {
		case queue <- i:
		case <-ctx.Done():
		}
	}
	close(queue)
	wait.Wait()
	return context.Cause(ctx)
}

func keep[T any](s *Session, key string, result T) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return s.store.Add(key, raw)
}
