package draws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/symphony-serving/symphony/bench/sim/blame"
)

// Bench measures the mixes, prints what came out, and writes the report of what
// there is.
func Bench(ctx context.Context, opts Options, to io.Writer) error {
	r, err := newRunner(opts)
	if err != nil {
		return err
	}
	defer r.store.Close()
	all, err := r.all(ctx)
	if err != nil {
		return errors.Join(summarise(to, all, r.opts.Ours), err)
	}
	c := &summary{opts: r.opts}
	for _, o := range all {
		if _, ok := o.Ratio(o.Ours); ok {
			c.all = append(c.all, o)
		}
	}
	c.none = len(all) - len(c.all)
	if len(c.all) == 0 {
		return nil // others alone were measured
	}
	if c.worst, err = r.explain(ctx, c.all); err != nil {
		return err
	}
	if err := c.write(); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return errors.Join(summarise(to, c.all, r.opts.Ours), said(to, opts.Out))
}

func said(to io.Writer, out string) error {
	_, err := fmt.Fprintf(to, "the report is in %s\n", out)
	return err
}

// explain runs ours and today's at the best other's rate, in the worst mixes.
func (r *runner) explain(ctx context.Context, all []*Outcome) ([]explained, error) {
	ratio := func(o *Outcome) float64 { v, _ := o.Ratio(o.Ours); return v }
	all = slices.SortedStableFunc(slices.Values(all), func(a, b *Outcome) int { return cmp.Compare(ratio(a), ratio(b)) })
	var out []explained
	for _, o := range all[:min(worstShown, len(all))] {
		e := explained{o: o, why: map[string]blame.Blame{}}
		for _, policy := range compared(o.Ours) {
			v, ok := o.Ratio(policy)
			if !ok || v >= 1 {
				continue
			}
			w, err := r.why(o, policy, func() bool { return ctx.Err() != nil })
			if err != nil {
				return nil, err
			}
			e.why[policy] = w
		}
		out = append(out, e)
	}
	return out, nil
}

// why finds, or makes, the explanation.
func (r *runner) why(o *Outcome, policy string, stop func() bool) (blame.Blame, error) {
	rate, _ := o.BestOther(policy)
	k := r.key("blame", o.Mix)
	k.Policy, k.Span, k.Rate = policy, o.Span, fmt.Sprintf("%.4g", rate)
	w, ok, err := find[blame.Blame](r, k)
	if err != nil || ok && !slices.Contains(r.fresh(), policy) {
		return w, err
	}
	c, err := newBench(o.Mix, o.Span, grid{}, firstArrivals(), stop).config(policy, rate, firstArrivals()[0])
	if err != nil {
		return w, err
	}
	if w, err = blame.Run(c, stop); err != nil {
		return w, err
	}
	return w, keep(r, k, w)
}
