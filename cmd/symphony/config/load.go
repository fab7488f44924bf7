package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Set is one key given by a flag, "scheduler.listen" for example.
type Set struct{ Key, Value string }

// Load reads the file (none if path is empty), then flags, then environ
// ("KEY=value", as os.Environ gives it), and returns all errors in one list.
// Variables that other parts of the system read are left alone, and so are Kubernetes' service links
// (environment.go).
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
	from := func(key string) string { return origin(key, flags, environ) }
	wrong := wrongs(err, from)
	for _, e := range c.validate() { // what could not be decoded keeps its default
		key, _, _ := strings.Cut(e.Error(), ":")
		wrong = append(wrong, fmt.Errorf("%w%s", e, from(key)))
	}
	return c, listed(wrong)
}

// listed is one error of all, with their number.
func listed(all []error) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("configuration: 1 error:\n%w", all[0])
	}
	return fmt.Errorf("configuration: %d errors:\n%w", len(all), errors.Join(all...))
}

// wrongs lists what mapstructure says, a key each, as validate does. from goes on
// about where a key was set.
func wrongs(err error, from func(key string) string) (all []error) {
	if err == nil {
		return nil
	}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		for _, e := range many.Unwrap() {
			all = append(all, wrongs(e, from)...)
		}
		return all
	}
	var one *mapstructure.DecodeError
	if !errors.As(err, &one) {
		return []error{err}
	}
	keys, unknown := strings.CutPrefix(one.Unwrap().Error(), "has invalid keys: ")
	if !unknown {
		return []error{fmt.Errorf("%s: %w%s", one.Name(), one.Unwrap(), from(one.Name()))}
	}
	group := one.Name()
	if group == reflect.TypeFor[Config]().String() { // the whole of it has no name of its own
		group = ""
	}
	for key := range strings.SplitSeq(keys, ", ") {
		key = strings.TrimPrefix(group+"."+key, ".")
		all = append(all, fmt.Errorf("%s: there is no such key%s%s", key, nearestText(key), from(key)))
	}
	return all
}

// origin says where a key was set, or what it is a part of, where that was not in the
// file. The environment lies over flags.
func origin(key string, flags []Set, environ []string) string {
	about := func(set string) bool {
		return set == key || strings.HasPrefix(set, key+".") || strings.HasPrefix(key, set+".") || strings.HasPrefix(key, set+"[")
	}
	for _, kv := range environ {
		for set := range envLayer([]string{kv}) {
			if about(set) {
				name, _, _ := strings.Cut(kv, "=")
				return "; set by the environment: " + name + linkText(key, environ)
			}
		}
	}
	for _, f := range flags {
		if about(f.Key) {
			return "; set by a flag: --set " + f.Key + " or its own"
		}
	}
	return ""
}

func flagLayer(flags []Set) map[string]any {
	layer := map[string]any{}
	for _, s := range flags {
		layer[s.Key] = s.Value
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
			DecodeHook: mapstructure.ComposeDecodeHookFunc(spanHook, sizeHook, boolHook, numberHook, addressesHook, mapstructure.StringToSliceHookFunc(",")),
		},
	})
	return c, err
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

// boolHook refuses what is neither true nor false: mapstructure takes any number but 0 for true.
func boolHook(_, to reflect.Type, v any) (any, error) {
	if _, is := v.(bool); is || v == "" || to.Kind() != reflect.Bool {
		return v, nil
	}
	b, err := strconv.ParseBool(fmt.Sprint(v))
	if err != nil {
		return nil, fmt.Errorf("%q is neither true nor false", fmt.Sprint(v))
	}
	return b, nil
}

// numberHook refuses text that is no number in words: mapstructure's are Go's.
func numberHook(from, to reflect.Type, v any) (any, error) {
	if from != reflect.TypeFor[string]() || v == "" {
		return v, nil
	}
	switch to.Kind() {
	case reflect.Int:
		if _, err := strconv.ParseInt(v.(string), 0, to.Bits()); err != nil {
			return nil, fmt.Errorf("%q is no whole number", v)
		}
	case reflect.Float64:
		if _, err := strconv.ParseFloat(v.(string), to.Bits()); err != nil {
			return nil, fmt.Errorf("%q is no number", v)
		}
	}
	return v, nil
}
