package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Checked remembers that a writer failed, for those who print and do not look: a
// full disk behind standard output must not look like success.
type Checked struct {
	To  io.Writer
	Err error // the first
}

func (c *Checked) Write(p []byte) (int, error) {
	if c.Err != nil {
		return 0, c.Err
	}
	n, err := c.To.Write(p)
	c.Err = err
	return n, err
}

// OpenOutput opens a flag's file for writing and leaves alone what it holds; made: it
// was not there.
func OpenOutput(flag, path string) (file *os.File, made bool, err error) {
	file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	made = err == nil
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(path, os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, false, FileError(flag, path, err)
	}
	return file, made, nil
}

// CheckWritable opens a flag's file before the work begins whose result it is to
// hold, and leaves it as it was.
func CheckWritable(flag, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0 {
		return nil // to open it and close it would be news to its reader
	}
	file, made, err := OpenOutput(flag, path)
	if err != nil {
		return err
	}
	err = file.Close()
	if made {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// FileError is of a flag's file that cannot be opened for writing, and says what
// to do.
func FileError(flag, path string, err error) error {
	help := "give a file that can be written"
	if info, e := os.Stat(path); e == nil && info.IsDir() {
		help = "give a file in that folder"
	} else if _, e := os.Stat(filepath.Dir(path)); errors.Is(e, fs.ErrNotExist) {
		help = fmt.Sprintf("make the folder %s first, or give a file in another one", filepath.Dir(path))
	}
	return fmt.Errorf("--%s: %w; %s", flag, err, help)
}

// Count is a number of things, of which one is called word and others words.
func Count(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}
