package peers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-serving/symphony/bench/plot"
)

// Write writes a run into a folder: results.json, results.csv, results.md, sweep.md,
// and a picture of each case and arrival process.
func (r *Result) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var errs []error
	text := func(name, content string) {
		errs = append(errs, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644))
	}
	var data, rows strings.Builder
	errs = append(errs, r.writeJSON(&data), r.writeCSV(&rows))
	text("results.json", data.String())
	text("results.csv", rows.String())
	text("results.md", "# Results\n\n"+r.Markdown())
	text("sweep.md", r.SweepMarkdown())
	for _, c := range r.Cases {
		for _, a := range r.Arrivals {
			if p, ok := r.Picture(c, a); ok {
				errs = append(errs, plot.Write(filepath.Join(folder, r.pictureName(c, a)), plot.Size{W: 8, H: 6.5}, p))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Result) pictureName(c Case, arrivals string) string {
	process, _, _ := strings.Cut(arrivals, ":")
	return c.Name + "-" + process
}

// Keep writes a run beside the README of a folder, and its tables into it.
func (r *Result) Keep(folder string) error {
	path := filepath.Join(folder, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	out, ok := Insert(string(readme), r.Markdown())
	if !ok {
		return fmt.Errorf("%s: it lacks the lines %q and %q", path, tableBegin, tableEnd)
	}
	if err := r.Write(folder); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(out), 0o644)
}
