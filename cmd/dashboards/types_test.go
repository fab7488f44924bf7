package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// scripts/dashboard-types.sh fetches what it pins where something else, or nothing, is there, and else nothing.
func TestPinsAreFetched(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	script, err := os.ReadFile("../../scripts/dashboard-types.sh")
	if err != nil {
		t.Fatal(err)
	}
	pin := regexp.MustCompile(`@grafana/schema@([0-9.]+) typescript@([0-9.]+)`).FindSubmatch(script)
	if pin == nil {
		t.Fatal("it pins nothing")
	}
	for _, c := range []struct {
		schema, typescript string
		fetches            bool
	}{{"", "", true}, {"1.0.0", string(pin[2]), true}, {string(pin[1]), "1.0.0", true}, {string(pin[1]), string(pin[2]), false}} {
		in := t.TempDir()
		put := func(name, text string) {
			t.Helper()
			name = filepath.Join(in, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		put("scripts/dashboard-types.sh", string(script))
		put("bin/npm", "#!/bin/sh\nexit 41\n")
		put("bin/node", "#!/bin/sh\nexit 42\n") // which is what comes next
		for name, version := range map[string]string{"@grafana/schema": c.schema, "typescript": c.typescript} {
			if version != "" {
				put("build/grafana-schema/node_modules/"+name+"/package.json", "{\n  \"version\": \""+version+"\"\n}\n")
			}
		}
		run := exec.Command(bash, filepath.Join(in, "scripts/dashboard-types.sh"))
		run.Env = append(os.Environ(), "PATH="+filepath.Join(in, "bin")+":"+os.Getenv("PATH"))
		out, _ := run.CombinedOutput()
		if code := run.ProcessState.ExitCode(); code != 41 && code != 42 || (code == 41) != c.fetches {
			t.Errorf("%+v: exit status %d: %s", c, code, out)
		}
	}
}
