package controlcmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

type versionsCmd struct {
	Flags  `embed:""`
	Name   string   `arg:"" help:"The model's name."`
	Policy string   `help:"Serve: latest, all." enum:",latest,all" default:"" placeholder:"latest|all"`
	Latest int      `help:"With --policy latest: how many." default:"0" placeholder:"N"`
	Listed []string `help:"Serve these versions, and no others." placeholder:"V"`
}

// Run shows or sets.
func (c versionsCmd) Run() error { return c.run(c.versions) }

func (c versionsCmd) versions(s *session) error {
	var m api.Model
	var err error
	switch p := (api.Policy{Kind: c.Policy, Latest: c.Latest}); {
	case len(c.Listed) > 0 && c.Policy != "":
		return errors.New("--policy and --listed: give one of them")
	case len(c.Listed) > 0:
		m, err = s.SetPolicy(s.ctx, c.Name, api.Policy{Kind: api.PolicyListed, Listed: c.Listed})
	case c.Latest != 0 && c.Policy != api.PolicyLatest:
		return errors.New("--latest goes with --policy latest")
	case c.Policy != "":
		m, err = s.SetPolicy(s.ctx, c.Name, p)
	default:
		m, err = s.Model(s.ctx, c.Name)
	}
	if err != nil {
		return err
	}
	return s.print(m, func() {
		fmt.Fprintf(s.out, "%s: %s\n", m.Name, policyText(m.Policy))
		s.versionTable(&m, "")
	})
}

func policyText(p api.Policy) string {
	switch {
	case p.Kind == api.PolicyListed:
		return "versions " + strings.Join(p.Listed, ", ") + " are to be served"
	case p.Kind == api.PolicyAll:
		return "all versions are to be served"
	case p.Latest > 1:
		return fmt.Sprintf("the latest %d versions are to be served", p.Latest)
	}
	return "the latest version is to be served"
}

type shareCmd struct {
	Flags  `embed:""`
	Name   string   `arg:"" help:"The model's name."`
	Shares []string `arg:"" optional:"" name:"version=weight" help:"Weights by version: 1=90 2=10, or 1=99.5% 2=0.5%. Versions that are not named get nothing but who asks for them by name."`
	Clear  bool     `help:"No shares: the highest version that is served answers."`
}

// Run shares.
func (c shareCmd) Run() error { return c.run(c.share) }

func (c shareCmd) share(s *session) error {
	shares, err := parseShares(c.Shares)
	switch {
	case err != nil:
		return err
	case c.Clear && len(shares) > 0:
		return errors.New("--clear and shares: give one of them")
	case !c.Clear && len(shares) == 0:
		return errors.New("which shares? write VERSION=WEIGHT for each version, like 1=90 2=10; --clear has none")
	}
	m, err := s.SetShares(s.ctx, c.Name, shares)
	if err != nil {
		return err
	}
	return s.print(m, func() { s.shareLine(&m) })
}

// parseShares reads weights, or per cent with at most two decimals.
func parseShares(args []string) (out []api.Share, err error) {
	cents := 0
	for _, a := range args {
		version, text, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("%q: write VERSION=WEIGHT, like 2=10", a)
		}
		number, percent := strings.CutSuffix(text, "%")
		weight, err := strconv.Atoi(number)
		if percent {
			weight, err = hundredths(number)
			cents++
		}
		if err != nil || weight < 0 {
			return nil, fmt.Errorf("%q: %q is no weight: a whole number, or per cent with at most two decimals", a, text)
		}
		out = append(out, api.Share{Version: version, Weight: weight})
	}
	if cents > 0 {
		sum := 0
		for _, s := range out {
			sum += s.Weight
		}
		if cents < len(out) || sum != 10_000 {
			return nil, fmt.Errorf("shares in per cent must be so for all versions, and 100%% together: they are %g%%", float64(sum)/100)
		}
	}
	return out, (&api.Shares{Shares: out}).Check()
}

// hundredths reads "12.34" as 1234.
func hundredths(text string) (int, error) {
	ones, rest, _ := strings.Cut(text, ".")
	for len(rest) < 2 {
		rest += "0"
	}
	if len(rest) > 2 || len(ones) > 3 {
		return 0, strconv.ErrRange
	}
	n, err := strconv.ParseUint(ones+rest, 10, 31)
	return int(n), err
}

type rollbackCmd struct {
	Flags `embed:""`
	Name  string `arg:"" help:"The model's name."`
}

// Run rolls back.
func (c rollbackCmd) Run() error { return c.run(c.rollback) }

func (c rollbackCmd) rollback(s *session) error {
	m, err := s.RollBack(s.ctx, c.Name)
	if err != nil {
		return err
	}
	return s.print(m, func() { s.shareLine(&m) })
}
