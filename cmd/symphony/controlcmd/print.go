package controlcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/client"
)

func ctxEnded(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func isLost(err error) bool {
	var u *client.UnreachableError
	return errors.As(err, &u) || errors.Is(err, &api.Error{Kind: api.KindAway})
}

func table(to io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(to, 0, 0, 2, ' ', 0) }

// words are a version's state as people read it.
func words(v *api.Version) string {
	text := string(v.State)
	switch v.State {
	case api.Fetching:
		if v.Total > 0 {
			text += fmt.Sprintf(" %s of %s (%d %%)", size(v.Done), size(v.Total), 100*v.Done/v.Total)
		}
	case api.Serving:
		if v.SubCluster != "" {
			text += " in " + v.SubCluster
		}
		if v.GPUs > 0 {
			text += " on " + cli.Count(v.GPUs, "GPU")
		}
	case api.Failed:
		text += ": " + v.Reason
		if !v.Next.IsZero() {
			text += fmt.Sprintf("; tries so far: %d, the next at %s", v.Tries, v.Next.Local().Format(time.TimeOnly))
		}
		return text
	}
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}

func size(n int64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, names := float64(n)/unit, "KMGT"
	i := 0
	for ; f >= unit && i < len(names)-1; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, names[i])
}

// listModels prints a line for each model.
func (s *session) listModels(models []api.Model) {
	if len(models) == 0 {
		s.note("no models: symphony model add NAME/VERSION --source URL adds one")
		return
	}
	w := table(s.out)
	fmt.Fprintln(w, "MODEL\tDESIRED\tVERSIONS\tSHARES\tREQUESTS/S\tGPUS NEEDED")
	for i := range models {
		m := &models[i]
		var states []string
		rate, need := 0.0, 0.0
		for j := range m.Versions {
			v := &m.Versions[j]
			rate, need = rate+v.Rate, need+v.Need
			if v.State != api.Idle {
				states = append(states, v.Version+" "+string(v.State))
			}
		}
		if len(states) == 0 {
			states = []string{fmt.Sprintf("%d, idle", len(m.Versions))}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%.2f\n", m.Name, m.Desired, strings.Join(states, ", "), sharesText(m.Shares), rate, need)
	}
	w.Flush()
}

// sharesText are shares in per cent.
func sharesText(shares []api.Share) string {
	sum := 0
	for _, s := range shares {
		sum += s.Weight
	}
	if sum == 0 {
		return "-"
	}
	var parts []string
	for _, s := range shares {
		parts = append(parts, fmt.Sprintf("%s=%.4g%%", s.Version, 100*float64(s.Weight)/float64(sum)))
	}
	return strings.Join(parts, " ")
}

// shareLine says who answers.
func (s *session) shareLine(m *api.Model) {
	if len(m.Shares) == 0 {
		fmt.Fprintf(s.out, "%s: the highest version that is served answers requests that name none\n", m.Name)
	} else {
		fmt.Fprintf(s.out, "%s: requests that name no version go to %s\n", m.Name, sharesText(m.Shares))
	}
	if m.Rollback {
		before := sharesText(m.Before)
		if before == "-" {
			before = "no shares"
		}
		fmt.Fprintf(s.out, "symphony model rollback %s returns to %s\n", m.Name, before)
	}
}

// showModel prints a model; version "": all of them.
func (s *session) showModel(m *api.Model, version string) {
	text := policyText(m.Policy)
	if m.Desired != api.Served { // it says what is wanted, not what is: that is in the table
		text = string(m.Desired) + ", otherwise " + text
	}
	fmt.Fprintf(s.out, "%s: %s\n", m.Name, text)
	if text := settingsText(&m.Settings); text != "" {
		fmt.Fprintf(s.out, "settings: %s\n", text)
	}
	if len(m.Shares) > 0 || m.Rollback {
		s.shareLine(m)
	}
	s.versionTable(m, version)
	if version == "" {
		return
	}
	if v := m.Find(version); v != nil {
		fmt.Fprintf(s.out, "source: %s\n", v.Source)
		if v.Digest != "" {
			fmt.Fprintf(s.out, "digest: %s\n", v.Digest)
		} else if v.LoadedDigest != "" {
			fmt.Fprintf(s.out, "digest: %s (of the files that were loaded first; later loads must have the same)\n", v.LoadedDigest)
		}
		if text := settingsText(&v.Settings); text != "" {
			fmt.Fprintf(s.out, "its own settings: %s\n", text)
		}
	}
}

func settingsText(s *api.Settings) string {
	var parts []string
	if s.SLO != 0 {
		parts = append(parts, "SLO "+s.SLO.String())
	}
	if s.MaxBatch != 0 {
		parts = append(parts, fmt.Sprintf("batches of at most %d", s.MaxBatch))
	}
	if s.DropPolicy != "" {
		parts = append(parts, "drop policy "+s.DropPolicy)
	}
	if len(s.DeviceTypes) > 0 {
		parts = append(parts, "on "+strings.Join(s.DeviceTypes, ", "))
	}
	return strings.Join(parts, ", ")
}

// stateMost is how long a state may be in the table; a longer one, as a failure's reason, follows it.
const stateMost = 60

func (s *session) versionTable(m *api.Model, version string) {
	w := table(s.out)
	var below []string
	fmt.Fprintln(w, "VERSION\tSTATE\tREQUESTS/S\tGPUS NEEDED\tSIZE\tDIGEST\tADDED")
	for i := range m.Versions {
		v := &m.Versions[i]
		if version != "" && v.Version != version {
			continue
		}
		bytes := "-"
		if n := cmp.Or(v.Bytes, v.LoadedBytes); n > 0 {
			bytes = size(n)
		}
		digest := "-"
		if d := cmp.Or(v.Digest, v.LoadedDigest); d != "" {
			digest = d[:min(8, len(d))] // whole where one version is shown
		}
		added := "in a backend's folder" // nobody ordered it
		if !v.Added.IsZero() {
			added = v.Added.Local().Format(time.DateTime)
		}
		state := words(v)
		if len(state) > stateMost {
			below = append(below, fmt.Sprintf("%s %s", v.Version, state))
			state = string(v.State)
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.2f\t%s\t%s\t%s\n", v.Version, state, v.Rate, v.Need, bytes, digest, added)
	}
	w.Flush()
	for _, line := range below {
		fmt.Fprintln(s.out, line)
	}
}
