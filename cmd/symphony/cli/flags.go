package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// Flags are those of every command that reads the configuration.
type Flags struct {
	Config string   `short:"c" help:"Configuration file (YAML)." placeholder:"FILE" type:"path" env:"SYMPHONY_CONFIG"`
	Set    []string `help:"Set one key of the configuration, over the file: --set scheduler.margin=2ms. Repeatable." placeholder:"KEY=VALUE" sep:"none"`
	Log    string   `help:"Log level: debug, info, warn, error." placeholder:"LEVEL"`
	Format string   `name:"log-format" help:"auto, console or json." placeholder:"FORMAT"`
}

// Load joins the layers; named are the values of a subcommand's own flags,
// where empty means not given.
func (c Flags) Load(named ...config.Set) (config.Config, error) {
	var sets []config.Set
	for _, kv := range c.Set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return config.Config{}, fmt.Errorf("--set %q: write KEY=VALUE, for example --set scheduler.margin=2ms", kv)
		}
		sets = append(sets, config.Set{Key: key, Value: value})
	}
	for _, s := range append(named, config.Set{Key: "log.level", Value: c.Log}, config.Set{Key: "log.format", Value: c.Format}) {
		if s.Value != "" {
			sets = append(sets, s)
		}
	}
	cfg, err := config.Load(c.Config, sets, os.Environ())
	if links := config.ServiceLinks(os.Environ()); err == nil && len(links) > 0 {
		log := Logger(cfg.Log)
		log.Info().Int("variables", len(links)).Str("first", links[0]).Msg("variables that Kubernetes made of Services are not configuration: passed over (enableServiceLinks: false in the pod's spec prevents them)")
	}
	return cfg, err
}
