package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder that cannot be made is said before the work, with the flag.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	f := Folder(filepath.Join(dir, "a", "b"))
	if err := f.Make(); err != nil {
		t.Fatal(err)
	}
	if err := f.Write("x", map[string]int{"n": 1}, [][]string{{"a", "b"}, {"1", "2"}}, []byte("# R\n")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"REPORT.md": "# R\n", "data/x.json": "{\n \"n\": 1\n}\n", "data/x.csv": "a,b\n1,2\n"} {
		if text, err := os.ReadFile(filepath.Join(string(f), name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Folder(file).Make(); err == nil || !strings.HasPrefix(err.Error(), "--out: ") {
		t.Errorf("a folder in a file: %v", err)
	}
}
