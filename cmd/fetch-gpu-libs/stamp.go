package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A stamp says that a wheel was unpacked, and into which files. It is written last and
// removed first, so what it says holds unless somebody else changed the files.

func (t tool) stampPath(w wheel) string { return filepath.Join(t.state(), w.project+".stamp") }

// head is the stamp's first line: another wheel, or another choice of its files, is another.
func (w wheel) head() string {
	return fmt.Sprintf("%s %s %s", w.sum, w.folder, strings.Join(append(slices.Clone(w.members), w.links...), " "))
}

// present reports whether all files of this very wheel are there.
func (t tool) present(w wheel) bool {
	text, err := os.ReadFile(t.stampPath(w))
	if err != nil {
		return false
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if lines[0] != w.head() || len(lines) < 2 {
		return false
	}
	for _, l := range lines[1:] {
		name, size := stamped(l)
		info, err := os.Stat(filepath.Join(t.dir, name)) // through links, to the size of what they lead to
		if err != nil || info.Size() != size {
			return false
		}
	}
	return true
}

// stamped reads a line of a stamp; a name that leads out of the folder is none.
func stamped(line string) (name string, size int64) {
	if _, err := fmt.Sscanf(line, "%d", &size); err != nil {
		return "", -1
	}
	_, name, _ = strings.Cut(line, " ")
	if !filepath.IsLocal(name) {
		return "", -1
	}
	return name, size
}

// place unpacks a wheel that was checked, in the place of an earlier one of the package.
func (t tool) place(ctx context.Context, w wheel) error {
	earlier, _ := os.ReadFile(t.stampPath(w))
	if err := os.Remove(t.stampPath(w)); err != nil && !os.IsNotExist(err) {
		return err
	}
	files, err := w.unpack(ctx, t.archive(w), t.dir)
	if err != nil {
		return err
	}
	text := w.head() + "\n"
	for _, f := range files {
		text += fmt.Sprintf("%d %s\n", f.size, f.name)
	}
	for _, l := range strings.Split(string(earlier), "\n")[1:] {
		name, _ := stamped(l)
		if name != "" && !slices.ContainsFunc(files, func(f placed) bool { return f.name == name }) {
			if err := os.Remove(filepath.Join(t.dir, name)); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	part := t.stampPath(w) + ".part"
	if err := os.WriteFile(part, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(part, t.stampPath(w))
}
