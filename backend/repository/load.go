package repository

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Load reads all models of the repository. The errors are those of single
// models (*ModelError), which are left out; err is that of the whole folder.
func Load(dir string) (models []Model, failed []error, err error) {
	entries, err := os.ReadDir(dir)
	var in place
	if err == nil {
		in, err = placeOf(dir)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("model repository: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		to, err := in.stat(path)
		if err != nil {
			failed = append(failed, &ModelError{e.Name(), path, err})
			continue
		}
		if !to.IsDir() {
			continue
		}
		m, errs := in.loadModel(path)
		models, failed = append(models, m...), append(failed, errs...)
	}
	if len(models) == 0 && len(failed) == 0 {
		return nil, nil, fmt.Errorf("model repository %s has no models (%w): it needs %s", dir, ErrEmpty, filepath.Join("<model>", "config.yaml"))
	}
	return models, failed, nil
}

// ErrEmpty: there is nothing in the folder that could be a model.
var ErrEmpty = errors.New("there are no models")

// Read reads one version of a model from a folder of its own, whatever that is called: an
// emulated model, which has no files of a version, is of the version that is asked for.
func Read(dir, name, version string) (Model, error) {
	in, err := placeOf(dir)
	if err != nil {
		return Model{}, &ModelError{name, dir, err}
	}
	models, failed := in.loadNamed(dir, name)
	for _, m := range models {
		if m.Spec.Platform == PlatformEmulated {
			m.Spec.Version = version
		}
		if m.Spec.Version == version {
			return m, nil
		}
	}
	for _, err := range failed {
		return Model{}, err
	}
	return Model{}, &ModelError{name, dir, fmt.Errorf("it has no version %s: it needs %s", version, filepath.Join(version, "model.onnx"))}
}

// loadModel reads one model's folder: every version that is there.
func (in place) loadModel(dir string) (models []Model, failed []error) {
	return in.loadNamed(dir, filepath.Base(dir))
}

func (in place) loadNamed(dir, name string) (models []Model, failed []error) {
	path := filepath.Join(dir, "config.yaml")
	fail := func(file string, err error) { failed = append(failed, &ModelError{name, file, err}) }
	f, err := in.readConfig(path)
	if err != nil {
		fail(path, err)
		return nil, failed
	}
	m, err := f.spec(name)
	if err != nil {
		fail(path, err)
		return nil, failed
	}
	m.Dir = dir
	if m.Warmup, err = in.warmup(dir, f); err != nil {
		fail(path, err)
		return nil, failed
	}
	if m.Spec.Platform == PlatformEmulated {
		m.Spec.Version = "1"
		return []Model{m}, failed
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		fail(dir, err)
	}
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 32); err != nil {
			continue
		}
		version := filepath.Join(dir, e.Name())
		if to, err := in.stat(version); err != nil {
			fail(version, err)
			continue
		} else if !to.IsDir() {
			continue
		}
		v := m
		v.Spec.Version, v.Path = e.Name(), filepath.Join(version, "model.onnx")
		if _, err := in.stat(v.Path); err != nil {
			fail(v.Path, err)
			continue
		}
		models = append(models, v)
	}
	if len(models) == 0 && len(failed) == 0 {
		fail(dir, errors.New("it has no version: a folder named by a number with model.onnx in it"))
	}
	return models, failed
}

func (in place) readConfig(path string) (*file, error) {
	if _, err := in.stat(path); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var f file
	if err := d.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, err
	}
	return &f, nil
}
