package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/symphony-serving/symphony/transport/mono"
)

// EnvPrefix starts the environment variables that configure; a double
// underscore stands for the dot between levels.
const EnvPrefix = "SYMPHONY_"

// Set is one key given by a flag, "scheduler.listen" for example.
type Set struct{ Key, Value string }

// Load reads the file (none if path is empty), then flags, then environ
// ("KEY=value", as os.Environ gives it), and returns all errors joined.
// Variables that other parts of the system read are left alone (reserved, and
// SYMPHONY_REQUIRE_*).
func Load(path string, flags []Set, environ []string) (Config, error) {
	k := koanf.New(".")
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return Config{}, fmt.Errorf("configuration file %s: no such file", path)
			}
			return Config{}, fmt.Errorf("configuration file %s: %w", path, err)
		}
	}
	for _, layer := range []map[string]any{flagLayer(flags), envLayer(environ)} {
		if err := k.Load(confmap.Provider(layer, "."), nil); err != nil {
			return Config{}, err
		}
	}
	c, err := decode(k)
	if err != nil {
		err = errors.Join(err, origins(err.Error(), flags, environ))
	}
	return c, errors.Join(err, c.Validate()) // what could not be decoded keeps its default
}

// reserved are variables with the prefix that are not keys: the path of the
// file, of a library, and what tests read.
func reserved() []string { return []string{"CONFIG", "ONNXRUNTIME", "E2E_FULL", "PRINT", "PYTHON"} }

// origins says where the keys were set that an error of decode may be about, where
// that was not in the file.
func origins(text string, flags []Set, environ []string) error {
	var all []error
	told := func(key, where string) {
		parent, last, ok := strings.Cut(key, ".")
		if i := strings.LastIndexByte(last, '.'); i >= 0 {
			last = last[i+1:]
		}
		word := func(s string) bool {
			found, err := regexp.MatchString(`\b`+regexp.QuoteMeta(s)+`\b`, text)
			return err == nil && found
		}
		if !ok && word(key) || ok && last != "" && word(parent) && word(last) {
			all = append(all, fmt.Errorf("%s was set by %s", key, where))
		}
	}
	for _, f := range flags {
		told(f.Key, "a flag: --set "+f.Key+" or its own")
	}
	for _, kv := range environ {
		for key := range envLayer([]string{kv}) {
			name, _, _ := strings.Cut(kv, "=")
			told(key, "the environment: "+name)
		}
	}
	return errors.Join(all...)
}

func flagLayer(flags []Set) map[string]any {
	layer := map[string]any{}
	for _, s := range flags {
		layer[s.Key] = s.Value
	}
	return layer
}

func envLayer(environ []string) map[string]any {
	layer := map[string]any{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(name, EnvPrefix)
		if !ok || slices.Contains(reserved(), rest) || strings.HasPrefix(rest, "REQUIRE_") {
			continue
		}
		layer[strings.ReplaceAll(strings.ToLower(rest), "__", ".")] = value
	}
	return layer
}

// decode turns the layers into a Config; unknown keys are errors.
func decode(k *koanf.Koanf) (Config, error) {
	c := Default()
	err := k.UnmarshalWithConf("", &c, koanf.UnmarshalConf{
		Tag: "yaml",
		DecoderConfig: &mapstructure.DecoderConfig{
			Result: &c, TagName: "yaml", ErrorUnused: true, WeaklyTypedInput: true, ZeroFields: true,
			DecodeHook: mapstructure.ComposeDecodeHookFunc(spanHook, sizeHook, mapstructure.StringToSliceHookFunc(",")),
		},
	})
	if err != nil {
		return c, fmt.Errorf("configuration: %w", err)
	}
	return c, nil
}

// spanHook reads spans as "50ms"; a bare number other than 0 has no unit and
// is refused.
func spanHook(from, to reflect.Type, v any) (any, error) {
	if to != reflect.TypeFor[mono.Dur]() {
		return v, nil
	}
	s := fmt.Sprint(v)
	if s == "0" {
		return mono.Dur(0), nil
	}
	d, err := parseSpan(s)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func sizeHook(from, to reflect.Type, v any) (any, error) {
	if to != reflect.TypeFor[Size]() {
		return v, nil
	}
	return ParseSize(fmt.Sprint(v))
}
