package repository

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// snapshotOf takes one of cnn/1, with a limit of time: nothing of a repository may hold it up.
func snapshotOf(t *testing.T, dir, version string) (m Model, err error) {
	t.Helper()
	done, into := make(chan struct{}), t.TempDir()
	go func() {
		defer close(done)
		m, err = Snapshot(t.Context(), dir, "cnn", version, into)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it is held up")
	}
	return m, err
}

func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "cnn/config.yaml", good)
	put(t, dir, "cnn/1/model.onnx", "graph")
	put(t, dir, "cnn/1/data/deep/w.bin", "weights")
	put(t, dir, "cnn/2/model.onnx", "another version")
	put(t, dir, "shared/w.bin", "shared weights")
	put(t, dir, "cnn/warmup/x.bin", "inputs")
	if err := os.Symlink("../../shared/w.bin", filepath.Join(dir, "cnn/1/linked.bin")); err != nil {
		t.Fatal(err)
	}
	m, err := snapshotOf(t, dir, "1")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"config.yaml": good, "1/model.onnx": "graph", "1/data/deep/w.bin": "weights", "1/linked.bin": "shared weights", "warmup/x.bin": "inputs"} {
		if text, err := os.ReadFile(filepath.Join(m.Files, path)); string(text) != want || err != nil {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		if info, err := os.Lstat(filepath.Join(m.Files, path)); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if _, err := os.Stat(filepath.Join(m.Files, "2")); err == nil {
		t.Error("another version was copied, too")
	}
	if m.Path != filepath.Join(m.Files, "1/model.onnx") || m.Dir != filepath.Join(dir, "cnn") {
		t.Errorf("%+v", m)
	}
	told := m.Explain(errors.New("loading " + m.Path + ": it is odd"))
	if told.Error() != "loading "+filepath.Join(dir, "cnn/1/model.onnx")+": it is odd" {
		t.Error(told)
	}
}

// What is no copy of a whole version is refused, with the file: a pipe without a writer, a link that leads out or
// nowhere, a file that no disk has room for, and folders that go round.
func TestSnapshotRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(version string) error
		want  string
	}{
		"pipe":     {func(v string) error { return syscall.Mkfifo(filepath.Join(v, "w.bin"), 0o644) }, "w.bin: it is no regular file"},
		"model":    {func(v string) error { return replaced(filepath.Join(v, "model.onnx"), syscall.Mkfifo) }, "model.onnx: it is no regular file"},
		"config":   {func(v string) error { return replaced(filepath.Join(v, "../config.yaml"), syscall.Mkfifo) }, "config.yaml: it is no regular file"},
		"folder":   {func(v string) error { return replaced(filepath.Join(v, "model.onnx"), syscall.Mkdir) }, "model.onnx: it is no regular file"},
		"out":      {func(v string) error { return os.Symlink("/etc/passwd", filepath.Join(v, "w.bin")) }, "leads out of the repository"},
		"nowhere":  {func(v string) error { return os.Symlink("lost", filepath.Join(v, "w.bin")) }, "a link to lost, which is not there"},
		"round":    {func(v string) error { return os.Symlink(".", filepath.Join(v, "again")) }, "folders more than 8 deep"},
		"huge":     {func(v string) error { return sparse(filepath.Join(v, "w.bin"), 8<<40) }, "MiB are free in"},
		"gone":     {func(v string) error { return os.RemoveAll(v) }, "it has no version 1"},
		"empty":    {func(v string) error { return os.Remove(filepath.Join(v, "model.onnx")) }, "there is no such file"},
		"mistaken": {func(v string) error { return os.WriteFile(filepath.Join(v, "../config.yaml"), []byte("x: 1"), 0o644) }, "field x not found"},
	} {
		dir := t.TempDir()
		put(t, dir, "cnn/config.yaml", good)
		put(t, dir, "cnn/1/model.onnx", "graph")
		put(t, dir, "cnn/2/model.onnx", "graph")
		if err := c.spoil(filepath.Join(dir, "cnn/1")); err != nil {
			t.Fatal(err)
		}
		if _, err := snapshotOf(t, dir, "1"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func replaced(path string, by func(string, uint32) error) error {
	return errors.Join(os.Remove(path), by(path, 0o644))
}

func sparse(path string, size int64) error {
	return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, size))
}

// Files that are written while they are copied are never mixed: the copy is of one moment, or there is none.
func TestSnapshotWhileWritten(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "cnn/config.yaml", good)
	put(t, dir, "cnn/1/model.onnx", strings.Repeat("a", 1<<20))
	put(t, dir, "cnn/1/w.bin", strings.Repeat("a", 1<<20))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for k := byte(0); ; k++ {
			for _, name := range []string{"model.onnx", "w.bin"} {
				select {
				case <-stop:
					return
				default:
				}
				text := []byte(strings.Repeat(string('a'+k%26), 1<<20))
				if err := os.WriteFile(filepath.Join(dir, "cnn/1", name), text, 0o644); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Duration(k%5) * time.Millisecond)
		}
	}()
	changed, whole := 0, 0
	for i := range 6 {
		if i == 4 { // the writer rests
			close(stop)
			<-ended
		}
		m, err := snapshotOf(t, dir, "1")
		if errors.Is(err, ErrChanges) {
			changed++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		whole++
		for _, name := range []string{"model.onnx", "w.bin"} {
			text, err := os.ReadFile(filepath.Join(m.Files, "1", name))
			if err != nil || len(text) != 1<<20 && len(text) != 0 || len(text) > 0 && strings.Trim(string(text), string(text[:1])) != "" {
				t.Errorf("%s is of several: %d bytes, %v", name, len(text), err)
			}
		}
	}
	if whole < 2 { // the last two
		t.Errorf("%d copies, %d times the files changed", whole, changed)
	}
}

// A folder whose name was meant as a version is one, or it is said why not; versions are numbers up to 63 bits.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "m/config.yaml", good)
	for _, v := range []string{"1", "01", "1705312200000", "20240115103000", "9223372036854775808", "-2", "１", "profiles", "v3"} {
		put(t, dir, "m/"+v+"/model.onnx", "")
	}
	models, failed, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range models {
		got = append(got, m.Spec.Version)
	}
	if strings.Join(got, " ") != "1 1705312200000 20240115103000" {
		t.Errorf("versions %q", got)
	}
	if len(failed) != 4 {
		t.Fatalf("refused: %v", failed)
	}
	for _, err := range failed {
		if !strings.Contains(err.Error(), "must be a whole number from 0 to 9223372036854775807, without zeros in front") {
			t.Error(err)
		}
	}
}

// A print tells a version that is overwritten file by file from one that changes whole.
func TestPartly(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "m/config.yaml", good)
	put(t, dir, "m/1/model.onnx", "a")
	put(t, dir, "m/1/w.bin", "a")
	put(t, dir, "m/2/model.onnx", "a")
	before := PrintOf(dir, "m")
	put(t, dir, "m/2/model.onnx", "ab")
	if p := PrintOf(dir, "m"); p.Equal(before) || p.Several(before) || p.Partly(before) {
		t.Error("a version of one file")
	}
	put(t, dir, "m/1/w.bin", "ab")
	if p := PrintOf(dir, "m"); !p.Several(before) || !p.Partly(before) {
		t.Error("one of two files")
	}
	put(t, dir, "m/1/model.onnx", "ab")
	if p := PrintOf(dir, "m"); !p.Several(before) || p.Partly(before) {
		t.Error("both files")
	}
}
