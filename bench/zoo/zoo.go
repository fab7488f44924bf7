// Package zoo is models by their latency profiles: the two tables of the
// Symphony paper, and others from files of the same form.
//
//	zoo_a100.csv    37 models on an NVIDIA A100 (Symphony, Table 4)
//	zoo_1080ti.csv  35 models on a GeForce 1080Ti (Symphony, Table 3)
//
// A file has the header `model,alpha_ms,beta_ms,slo_ms` and a model in each
// line: l(b) = alpha*b + beta, and the SLO, in milliseconds. One model can be
// written in a line of a shell, too: `name:alpha:beta:slo`.
//
// What is refused, by line: another header, blank lines, a missing or further
// column, a name that came before, numbers that are none or below 0, a profile
// of 0 and an SLO of 0. Nothing is passed over: a model that silently lacks
// makes every result about the mix wrong.
//
// Rejected: encoding/csv. It skips blank lines, and the quotes it understands
// allow names that the other form cannot carry.
package zoo

import (
	"bufio"
	_ "embed" // the two tables
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrInvalid is the cause of every refused model and file.
var ErrInvalid = errors.New("invalid model")

//go:embed zoo_a100.csv
var a100 string

//go:embed zoo_1080ti.csv
var gtx1080Ti string

// A100 is Table 4.
func A100() []Model { return mustRead("zoo_a100.csv", a100) }

// GTX1080Ti is Table 3.
func GTX1080Ti() []Model { return mustRead("zoo_1080ti.csv", gtx1080Ti) }

func mustRead(name, text string) []Model {
	models, err := Read(strings.NewReader(text), name)
	if err != nil {
		panic(err) // the file is part of the program: a bug
	}
	return models
}

// header of a file.
const header = "model,alpha_ms,beta_ms,slo_ms"

// Read reads a file; name is for its errors.
func Read(r io.Reader, name string) ([]Model, error) {
	scan := bufio.NewScanner(r)
	var models []Model
	first := map[string]int{} // name -> line
	line := 0
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s:%d: %s", ErrInvalid, name, line, fmt.Sprintf(format, args...))
	}
	for scan.Scan() {
		line++
		text := strings.TrimSpace(scan.Text())
		if line == 1 {
			if text = strings.TrimPrefix(text, "\ufeff"); text != header {
				return nil, bad("header %q, must be %s", text, header)
			}
			continue
		}
		m, err := parse(strings.Split(text, ","), "column")
		switch {
		case text == "":
			return nil, bad("blank line, must be a model: %s", header)
		case err != nil:
			return nil, bad("%v", err)
		case first[m.Name] != 0:
			return nil, bad("model %q is in line %d already", m.Name, first[m.Name])
		}
		first[m.Name] = line
		models = append(models, m)
	}
	line++
	if err := scan.Err(); err != nil {
		return nil, bad("%v", err)
	}
	if len(models) == 0 {
		return nil, bad("no models, must be lines of %s", header)
	}
	return models, nil
}

// Parse reads `name:alpha:beta:slo`.
func Parse(text string) (Model, error) {
	m, err := parse(strings.Split(text, ":"), "part")
	if err != nil {
		return Model{}, fmt.Errorf("%w %q: %w", ErrInvalid, text, err)
	}
	return m, nil
}

// parse reads a model from its four fields, which errors call columns or parts.
func parse(fields []string, noun string) (Model, error) {
	names := strings.Split(header, ",")
	if len(fields) != len(names) {
		like := header
		if noun == "part" {
			like = strings.Join(names, ":")
		}
		return Model{}, fmt.Errorf("%d %ss, must be %d: %s", len(fields), noun, len(names), like)
	}
	m := Model{Name: strings.TrimSpace(fields[0])}
	for i, to := range []*mono.Dur{&m.Alpha, &m.Beta, &m.SLO} {
		text := strings.TrimSpace(fields[i+1])
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= millisMax) {
			return Model{}, fmt.Errorf("%s %d: %s %q, must be a number from 0 to %g", noun, i+2, names[i+1], text, millisMax)
		}
		*to = mono.FromMillis(v)
	}
	return m, m.Check()
}

// millisMax is an hour: what package profile takes at most.
const millisMax = 3.6e6
