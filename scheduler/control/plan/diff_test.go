package plan

import "fmt"

// lines are a Diff as the transcripts have it.
func (d *Diff) lines() (out []string) {
	show := func(name, none string) string {
		if name == "" {
			return none
		}
		return name
	}
	loads := func(n int, bytes int64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf(", %d loads, %s", n, size(bytes))
	}
	for _, m := range d.Models {
		out = append(out, fmt.Sprintf("model %s: %s -> %s%s", m.Key, show(m.From, "nowhere"), show(m.To, "nowhere"), loads(m.Loads, m.Bytes)))
	}
	for _, g := range d.GPUs {
		out = append(out, fmt.Sprintf("GPU %s: %s -> %s%s", g.Name, show(g.From, "free"), show(g.To, "free"), loads(g.Loads, g.Bytes)))
	}
	return append(out, fmt.Sprintf("%d models move, %d stay; %d GPUs move; %d loads, %s", len(d.Models), d.Stay, len(d.GPUs), d.Loads, size(d.Bytes)))
}

// size is bytes for people.
func size(bytes int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(bytes), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", v, units[u])
}
