package repository

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-serving/symphony/transport/catalog"
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
			failed = append(failed, &ModelError{Model: e.Name(), File: path, Err: err})
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
		return Model{}, &ModelError{Model: name, File: dir, Err: err}
	}
	models, failed := in.loadNamed(dir, name)
	return pick(models, failed, dir, name, version)
}

// pick is the version of a model that was read, or why there is none.
func pick(models []Model, failed []error, dir, name, version string) (Model, error) {
	for _, m := range models {
		if m.Spec.Platform == PlatformEmulated {
			m.Spec.Version = version
		}
		if m.Spec.Version == version {
			return m, nil
		}
	}
	for _, err := range failed {
		if e := (*ModelError)(nil); !errors.As(err, &e) || e.Version == "" || e.Version == version {
			return Model{}, err
		}
	}
	return Model{}, &ModelError{Model: name, File: dir, Err: fmt.Errorf("it has no version %s: it needs %s", version, filepath.Join(version, "model.onnx"))}
}

// loadModel reads one model's folder: every version that is there.
func (in place) loadModel(dir string) (models []Model, failed []error) {
	return in.loadNamed(dir, filepath.Base(dir))
}

func (in place) loadNamed(dir, name string) (models []Model, failed []error) {
	path := filepath.Join(dir, ConfigFile)
	fail := func(version, file string, err error) {
		failed = append(failed, &ModelError{Model: name, Version: version, File: file, Err: err})
	}
	f, err := in.readConfig(path)
	if err != nil {
		fail("", path, in.withoutConfig(dir, err))
		return nil, failed
	}
	m, err := f.spec(name)
	if err != nil {
		fail("", path, err)
		return nil, failed
	}
	m.Dir = dir
	if m.Warmup, err = in.warmup(dir, f); err != nil {
		fail("", path, err)
		return nil, failed
	}
	if m.Spec.Platform == PlatformEmulated {
		m.Spec.Version = "1"
		return []Model{m}, failed
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		fail("", dir, err)
	}
	for _, e := range entries {
		if !catalog.MeansVersion(e.Name()) {
			continue
		}
		v := m
		v.Spec.Version = e.Name()
		version := filepath.Join(dir, e.Name())
		file, err := in.versionFile(version)
		switch {
		case err != nil:
			fail(v.Spec.Version, file, err)
		case file != "":
			v.Path = file
			models = append(models, v)
		}
	}
	if len(models) == 0 && len(failed) == 0 {
		fail("", dir, errors.New("it has no version: a folder named by a number with model.onnx in it"))
	}
	return models, failed
}

// versionFile is the model's file of a version's folder; "": it is no folder. With an error it is what that is of.
func (in place) versionFile(version string) (file string, err error) {
	to, err := in.stat(version)
	switch {
	case err != nil:
		return version, err
	case !to.IsDir():
		return "", nil
	}
	if err := catalog.CheckVersion(filepath.Base(version)); err != nil {
		return version, fmt.Errorf("version %w", err)
	}
	file = filepath.Join(version, "model.onnx")
	if to, err = in.stat(file); err == nil && !to.Mode().IsRegular() {
		err = errNotRegular
	}
	return file, err
}

// ConfigFile is a model's configuration in its folder, TritonConfigFile Triton's, and configMax the bytes that it may have.
const (
	ConfigFile       = "config.yaml"
	TritonConfigFile = "config.pbtxt"
	configMax        = 1 << 20
)

// withoutConfig says what to do where only another server's configuration is there.
func (in place) withoutConfig(dir string, err error) error {
	if !errors.Is(err, errNotThere) {
		return err
	}
	if _, other := in.stat(filepath.Join(dir, TritonConfigFile)); other != nil {
		return err
	}
	return fmt.Errorf("%w; %s is Triton's configuration, which is not read: write a %s with slo, max_batch, inputs and outputs (README, Configuration)", err, TritonConfigFile, ConfigFile)
}

func (in place) readConfig(path string) (*file, error) {
	if _, err := in.stat(path); err != nil {
		return nil, err
	}
	text, err := readFile(path, configMax)
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
