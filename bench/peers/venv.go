package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// venv is a Python environment of a system's own: what one pins is not what another
// wants.
type venv struct {
	python string // that makes it
	folder string // absolute
	system string // the embedded folder with its requirements.txt
}

// stamp holds the requirements that are installed.
func (v venv) stamp() string { return filepath.Join(v.folder, "installed.txt") }

func (v venv) bin(name string) string { return filepath.Join(v.folder, "bin", name) }

// install makes the environment, unless it is there with these requirements.
func (v venv) install(ctx context.Context) error {
	want, err := files.ReadFile(v.system + "/requirements.txt")
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(v.stamp()); err == nil && string(have) == string(want) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, installMax)
	defer cancel()
	if err := os.RemoveAll(v.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(v.folder, 0o755); err != nil {
		return err
	}
	if err := quietly(ctx, v.python, "-m", "venv", v.folder); err != nil {
		return fmt.Errorf("no Python environment: %w", err)
	}
	if err := unpack(v.system+"/requirements.txt", v.folder); err != nil {
		return err
	}
	if err := quietly(ctx, v.bin("python"), "-m", "pip", "install", "--disable-pip-version-check", "-q", "-r", filepath.Join(v.folder, "requirements.txt")); err != nil {
		return fmt.Errorf("not installable: %w", err)
	}
	return os.WriteFile(v.stamp(), want, 0o644)
}

// packages is where the environment's packages are.
func (v venv) packages() (string, error) {
	found, err := filepath.Glob(filepath.Join(v.folder, "lib", "python3.*", "site-packages"))
	if err != nil || len(found) != 1 {
		return "", errors.Join(fmt.Errorf("%s: no folder of packages", v.folder), err)
	}
	return found[0], nil
}

// environ is ours with the environment in front, and more.
func (v venv) environ(more ...string) []string {
	out := []string{"VIRTUAL_ENV=" + v.folder, "PATH=" + filepath.Join(v.folder, "bin") + ":" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1",
		"ORT_DISABLE_TELEMETRY=1"} // of the ONNX Runtime that they bring
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); name != "PATH" && name != "VIRTUAL_ENV" && name != "PYTHONPATH" && name != "PYTHONHOME" {
			out = append(out, kv)
		}
	}
	return append(out, more...)
}

// pinned is the version of a package in the requirements.
func (v venv) pinned(pkg string) string {
	text, _ := files.ReadFile(v.system + "/requirements.txt")
	for line := range strings.Lines(string(text)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), pkg+"=="); ok {
			return version
		}
	}
	return "?"
}

// quietly runs a command; an error carries the end of what it printed.
func quietly(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = withParent()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, lastLine(string(out)))
	}
	return nil
}

// lastLine is the last line with text, shortened.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if len(last) > 200 {
		last = last[:200] + "..."
	}
	return last
}
