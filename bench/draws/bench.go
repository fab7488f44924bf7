package draws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Bench measures the mixes and prints what came out.
func Bench(ctx context.Context, opts Options, to io.Writer) error {
	all, err := Run(ctx, opts)
	return errors.Join(summarise(to, all), err)
}

// summarise prints the shares of the ratios.
func summarise(to io.Writer, all []*Outcome) error {
	for _, policy := range []string{Ours, Today} {
		values := ratios(all, policy)
		if len(values) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(to, "%s to the best other, %d mixes: at least 0.99 in %.1f %%, 0.95 in %.1f %%; lowest %.3f, median %.3f\n",
			policy, len(values), 100*shareOf(values, 0.99), 100*shareOf(values, 0.95), values[0], values[len(values)/2]); err != nil {
			return err
		}
	}
	return nil
}

// ratios of a policy, ascending.
func ratios(all []*Outcome, policy string) []float64 {
	var out []float64
	for _, o := range all {
		if v, ok := o.Ratio(policy); ok {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// shareOf the values that are at least that.
func shareOf(values []float64, least float64) float64 {
	n := 0
	for _, v := range values {
		if v >= least {
			n++
		}
	}
	return float64(n) / float64(max(1, len(values)))
}
