package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const deploy = "../../../deploy/"

// Every configuration file below deploy, those that the chart makes included, is one that the
// processes take: a key that is renamed is found here.
func TestDeployedFiles(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/*/*.yaml", "kustomize/base/config-*.yaml", "systemd/etc/*.yaml", "compose/*.yaml"} {
		found, err := filepath.Glob(deploy + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Load(write(t, known(string(text))), nil, []string{"SYMPHONY_TOKEN=t", "SYMPHONY_BACKEND__NAME=b", "SYMPHONY_FRONTEND__NAME=f", "SYMPHONY_CONTROL__NAME=c", "SYMPHONY_RDMA__MODE=auto"}); err != nil {
			t.Errorf("%s: %v\n%s", path, err, text)
		}
	}
}

// Compose's services are configured by their environment.
func TestDeployedEnvironment(t *testing.T) {
	text, err := os.ReadFile(deploy + "docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(file.Services)) {
		var environ []string
		for key, value := range file.Services[name].Environment {
			if !isComing(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, EnvPrefix), "__", "."))) {
				environ = append(environ, key+"="+known(value))
			}
		}
		if _, err := Load("", nil, environ); err != nil || len(environ) < 5 {
			t.Errorf("%s: %d variables: %v", name, len(environ), err)
		}
	}
}

// coming are keys that are about to be there, and are left out until then; so are groups of
// schedulers (A+B), of which the first one is taken. A key that is there is not left out.
func coming() []string {
	return []string{"scheduler.standby", "scheduler.heartbeat", "control.keda", "control.autoscale"}
}

func isComing(key string) bool {
	if !slices.Contains(coming(), key) {
		return false
	}
	_, err := Load("", []Set{{key, "x"}}, nil)
	return err != nil && strings.Contains(err.Error(), "there is no such key")
}

var rest = regexp.MustCompile(`\+tcp:[^\s",]+`)

// known is a file, or a value, without what is not there yet.
func known(text string) string {
	if _, err := Load("", []Set{{"frontend.scheduler", "tcp:a:1+tcp:b:2"}}, nil); err != nil {
		text = rest.ReplaceAllString(text, "")
	}
	var file map[string]any
	if yaml.Unmarshal([]byte(text), &file) != nil {
		return text
	}
	for _, key := range coming() {
		group, name, _ := strings.Cut(key, ".")
		if in, ok := file[group].(map[string]any); ok && isComing(key) {
			delete(in, name)
		}
	}
	out, err := yaml.Marshal(file)
	if err != nil {
		panic(fmt.Sprint("what was read cannot be written: ", err))
	}
	return string(out)
}
