package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Folder is where a benchmark leaves REPORT.md, and beside it data and plots.
type Folder string

// Make makes it before the work whose report it is to hold.
func (f Folder) Make() error {
	for _, dir := range []string{"data", "plots"} {
		if err := os.MkdirAll(filepath.Join(string(f), dir), 0o755); err != nil {
			return fmt.Errorf("--out: %w; give a folder that can be written", err)
		}
	}
	return nil
}

// Plot is where a plot of that name is drawn.
func (f Folder) Plot(name string) string { return filepath.Join(string(f), "plots", name) }

// Write writes REPORT.md, and what it was made of: all as data/NAME.json, and rows as data/NAME.csv.
func (f Folder) Write(name string, all any, rows [][]string, text []byte) error {
	doc, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	var table bytes.Buffer
	if err := csv.NewWriter(&table).WriteAll(rows); err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		text []byte
	}{{filepath.Join("data", name+".json"), append(doc, '\n')}, {filepath.Join("data", name+".csv"), table.Bytes()}, {"REPORT.md", text}} {
		if err := os.WriteFile(filepath.Join(string(f), file.name), file.text, 0o644); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	return nil
}
