package scenario

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/bench/zoo"
)

const modelsHelp = "must be NAME:ALPHA:BETA:SLO in ms, zoo:a100, zoo:1080ti, zoo:a100/NAME or FILE.csv, and Nx before any of them for N copies"

// ParseModels reads the models of a mix:
//
//	ResNet50:1.053:5.072:25   l(b) = 1.053 ms * b + 5.072 ms, SLO 25 ms
//	zoo:a100                  Table 4 of the Symphony paper; zoo:1080ti, Table 3
//	zoo:a100/ResNet50         one of its models
//	models.csv                a file of the same form (package zoo); it may end with blank lines
//	8xzoo:1080ti/ResNet50     copies, named ResNet50#1 to ResNet50#8
//
// Two models of one name are refused: nothing could tell them apart after.
func ParseModels(texts []string) ([]zoo.Model, error) {
	var models []zoo.Model
	seen := map[string]bool{}
	for _, text := range texts {
		some, err := parseModels(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			if seen[m.Name] {
				return nil, refuse("models", "model %q is there twice: name a model once, or write Nx for copies", m.Name)
			}
			seen[m.Name] = true
		}
		if models = append(models, some...); len(models) > modelsMax {
			return nil, refuse("models", "more than %d models", modelsMax)
		}
	}
	if len(models) == 0 {
		return nil, refuse("models", "none; "+modelsHelp)
	}
	return models, nil
}

func parseModels(text string) ([]zoo.Model, error) {
	digits, rest, found := strings.Cut(text, "x")
	n, err := strconv.Atoi(digits)
	if !found || err != nil {
		return parseOnce(text)
	}
	if n < 1 || n > modelsMax {
		return nil, refuse("models", "%q: %d copies, must be 1 to %d", text, n, modelsMax)
	}
	once, err := parseOnce(rest)
	if err != nil {
		return nil, err
	}
	if n*len(once) > modelsMax {
		return nil, refuse("models", "%q: %d models, at most %d", text, n*len(once), modelsMax)
	}
	var out []zoo.Model
	for _, m := range once {
		name := m.Name
		for i := range n {
			m.Name = name + "#" + strconv.Itoa(i+1)
			out = append(out, m)
		}
	}
	return out, nil
}

func parseOnce(text string) ([]zoo.Model, error) {
	if table, ok := strings.CutPrefix(text, "zoo:"); ok {
		return parseZoo(table)
	}
	if strings.HasSuffix(text, ".csv") {
		models, err := readModels(text)
		return models, wrap("models", err)
	}
	if !strings.Contains(text, ":") {
		return nil, refuse("models", "%q, "+modelsHelp, text)
	}
	m, err := zoo.Parse(text)
	return []zoo.Model{m}, wrap("models", err)
}

// readModels reads a file, without blank lines at its end: editors leave them,
// and no model can be meant. Package zoo refuses the others.
func readModels(path string) ([]zoo.Model, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return zoo.Read(bytes.NewReader(bytes.TrimRight(text, " \t\r\n")), path)
}

func parseZoo(table string) ([]zoo.Model, error) {
	table, name, one := strings.Cut(table, "/")
	var models []zoo.Model
	switch table {
	case "a100":
		models = zoo.A100()
	case "1080ti":
		models = zoo.GTX1080Ti()
	default:
		return nil, refuse("models", "zoo:%s, must be zoo:a100 or zoo:1080ti", table)
	}
	if !one {
		return models, nil
	}
	var names []string
	for _, m := range models {
		if m.Name == name {
			return []zoo.Model{m}, nil
		}
		names = append(names, m.Name)
	}
	return nil, refuse("models", "zoo:%s has no model %q, must be one of %s", table, name, strings.Join(names, ", "))
}
