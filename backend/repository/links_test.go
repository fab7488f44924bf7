package repository

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// linkedRepository is a folder of models behind links: five that stay in it, and nine
// that lead out or nowhere.
func linkedRepository(t *testing.T) (base, dir, outside string) {
	t.Helper()
	base = t.TempDir()
	dir, outside = filepath.Join(base, "repository"), filepath.Join(base, "outside", "cnn")
	put(t, base, "outside/cnn/config.yaml", good)
	put(t, base, "outside/cnn/1/model.onnx", "")
	put(t, base, "repository-other/cnn/config.yaml", good) // begins like the repository, and is not in it
	put(t, dir, ".data/cnn/config.yaml", good)
	put(t, dir, ".data/cnn/1/model.onnx", "")
	for _, model := range []string{"versions", "config", "file"} {
		put(t, dir, model+"/config.yaml", good)
		put(t, dir, model+"/1/model.onnx", "")
	}
	link := func(at, to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	link("relative", ".data/cnn")
	link("absolute", filepath.Join(dir, ".data", "cnn"))
	link("twice", "relative")
	link("versions/2", "../.data/cnn/1")
	link("readme", "versions/config.yaml") // a file is no model

	link("out", outside)
	link("beside", "../repository-other/cnn")
	link("above", "..")
	link("passwd", "/etc/passwd")
	link("nowhere", "not/there")
	link("loop", "loop")
	link("file/2", filepath.Join(outside, "1"))
	for _, f := range []string{"config/config.yaml", "file/1/model.onnx"} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
		link(f, filepath.Join(outside, strings.SplitN(f, "/", 2)[1]))
	}
	return base, dir, outside
}

// Links that stay in the repository are served like what they lead to, be they relative,
// absolute or of several steps, and also where the repository itself is reached by one.
// Each that leads out is refused with a line that says where to, and takes no other with it.
func TestLinks(t *testing.T) {
	base, dir, outside := linkedRepository(t)
	through := filepath.Join(base, "through")
	if err := os.Symlink(dir, through); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, through} {
		models, failed, err := Load(at)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, m := range models {
			got[m.Spec.Key()] = true
		}
		for _, want := range []string{"relative/1", "absolute/1", "twice/1", "versions/1", "versions/2"} {
			if !got[want] {
				t.Errorf("%s is not served", want)
			}
		}
		if len(models) != 5 {
			t.Errorf("served: %v", got)
		}
		text := ""
		for _, f := range failed {
			text += f.Error() + "\n"
		}
		for _, want := range []string{"out of the repository, to " + outside, "repository-other/cnn, and is not followed", "to " + base + ", and", "/etc/passwd",
			"it is a link to not/there, which is not there", "loop", "config.yaml: a link leads out", "model.onnx: a link leads out", filepath.Join("file", "2") + ": a link leads out"} {
			if !strings.Contains(text, want) {
				t.Errorf("no line has %q in\n%s", want, text)
			}
		}
		if len(failed) != 9 {
			t.Errorf("%d lines, want 9:\n%s", len(failed), text)
		}
	}
}
