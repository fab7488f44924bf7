package controlcmd

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// entry is a model version of a file.
type entry struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Source      string   `json:"source"`
	Digest      string   `json:"digest"`
	Bytes       int64    `json:"bytes"`
	SLO         api.Span `json:"slo"`
	MaxBatch    int      `json:"max_batch"`
	DropPolicy  string   `json:"drop_policy"`
	DeviceTypes []string `json:"device_types"`

	at string // where it stands, for errors
}

func (e *entry) key() string { return strings.TrimSuffix(e.Name+"/"+e.Version, "/") }

func (e *entry) spec() api.VersionSpec {
	return api.VersionSpec{Source: e.Source, Digest: e.Digest, Bytes: e.Bytes,
		Settings: api.Settings{SLO: e.SLO, MaxBatch: e.MaxBatch, DropPolicy: e.DropPolicy, DeviceTypes: e.DeviceTypes}}
}

// checkKey takes NAME/VERSION for a name, too.
func (e *entry) checkKey(version bool) error {
	name, v, err := split(e.Name)
	if err != nil {
		return err
	}
	if v != "" && e.Version != "" && v != e.Version {
		return fmt.Errorf("version %s in the name, and version %s", v, e.Version)
	}
	if e.Name = name; v != "" {
		e.Version = v
	}
	if e.Version == "" && !version {
		return nil
	}
	return api.CheckVersion("version", e.Version)
}

// Limits of a file.
const (
	fileMax    = 256 << 20
	entriesMax = 100_000
)

// read reads a file of entries, whichever of the forms it has.
func (s *session) read(path string) ([]entry, error) {
	in, name := s.in, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		defer f.Close()
		in, name = f, path
	}
	data, err := io.ReadAll(io.LimitReader(in, fileMax+1))
	if err == nil && len(data) > fileMax {
		err = fmt.Errorf("has more than %d bytes", fileMax)
	}
	if err != nil {
		return nil, fmt.Errorf("--from: %s: %w", name, err)
	}
	all, err := parse(data, filepath.Ext(path))
	switch {
	case err == nil && len(all) == 0:
		err = errors.New("it lists nothing")
	case err == nil && len(all) > entriesMax:
		err = fmt.Errorf("%d entries, at most %d", len(all), entriesMax)
	}
	if err != nil {
		return nil, fmt.Errorf("--from: %s: %w", name, err)
	}
	return all, nil
}

// parse tells the forms by the name's ending, or else by how they begin.
func parse(data []byte, ending string) ([]entry, error) {
	first := bytes.TrimLeft(data, " \t\r\n\ufeff")
	switch line, _, _ := bytes.Cut(first, []byte("\n")); {
	case ending == ".csv" || ending != ".yaml" && ending != ".yml" && bytes.HasPrefix(bytes.ToLower(line), []byte("name")) && !bytes.Contains(line, []byte(":")):
		return parseCSV(data)
	case bytes.HasPrefix(first, []byte("{")) || bytes.HasPrefix(first, []byte("[")):
		return parseJSON(first)
	}
	return parseYAML(data)
}

// entryOf reads one entry of any form, strictly. Versions may be numbers.
func entryOf(tree map[string]any, at string) (e entry, err error) {
	switch v := tree["version"].(type) {
	case int:
		tree["version"] = strconv.Itoa(v)
	case float64:
		tree["version"] = strconv.FormatFloat(v, 'f', -1, 64)
	}
	b, err := json.Marshal(tree)
	if err == nil {
		err = api.Decode(b, &e)
	}
	if err != nil {
		return e, fmt.Errorf("%s: %w", at, err)
	}
	e.at = at
	return e, nil
}

// parseJSON reads objects one after the other, or lists of them.
func parseJSON(data []byte) (all []entry, err error) {
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		line := 1 + bytes.Count(data[:d.InputOffset()], []byte("\n"))
		if d.InputOffset() > 0 {
			line++ // of one object a line
		}
		var tree any
		switch err := d.Decode(&tree); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if all, err = add(all, tree, fmt.Sprintf("line %d", line)); err != nil {
			return nil, err
		}
	}
}

// parseYAML reads documents, each an object or a list of them.
func parseYAML(data []byte) (all []entry, err error) {
	for d, n := yaml.NewDecoder(bytes.NewReader(data)), 1; ; n++ {
		var tree any
		switch err := d.Decode(&tree); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		}
		at := ""
		if n > 1 {
			at = fmt.Sprintf("document %d", n)
		}
		if all, err = add(all, tree, at); err != nil {
			return nil, err
		}
	}
}

// add takes an object, or a list of them.
func add(all []entry, tree any, at string) ([]entry, error) {
	switch tree := tree.(type) {
	case nil:
		return all, nil
	case map[string]any:
		e, err := entryOf(tree, strings.TrimSpace(at+" entry "+strconv.Itoa(len(all)+1)))
		return append(all, e), err
	case []any:
		for i, t := range tree {
			object, ok := t.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s entry %d is no object", at, i+1)
			}
			e, err := entryOf(object, fmt.Sprintf("entry %d", len(all)+1))
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		return all, nil
	}
	return nil, fmt.Errorf("%s: want objects with name, version and source", strings.TrimSpace(at+" "))
}

// parseCSV reads lines under a line of names.
func parseCSV(data []byte) (all []entry, err error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.TrimLeadingSpace, r.Comment = true, '#'
	names, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("its first line must name the columns: %w", err)
	}
	for {
		fields, err := r.Read()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		tree := map[string]any{}
		for i, text := range fields {
			name := strings.ToLower(strings.TrimSpace(names[i]))
			switch {
			case text == "": // as if it were not there
			case name == "max_batch" || name == "bytes":
				n, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return nil, fmt.Errorf("line %d: %s: %q is no whole number", line, name, text)
				}
				tree[name] = n
			case name == "device_types":
				tree[name] = strings.Split(text, ";")
			default:
				tree[name] = text
			}
		}
		e, err := entryOf(tree, fmt.Sprintf("line %d", line))
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
}
