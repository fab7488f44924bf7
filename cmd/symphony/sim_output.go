package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// simOutputs are the files that the flags name. They are opened before anything
// is simulated: an hour's result must not be lost to a folder that is not there.
// What they hold is not touched before there is a result.
//
// Two outputs in one file, or an output in a file that is read, are refused,
// whatever their paths look like.
type simOutputs struct{ files []simOutput }

type simOutput struct {
	flag, path string
	file       *os.File
	made       bool // here, and empty until it is written
}

// openSimOutputs opens the files of --json, --csv and --timeline.
func openSimOutputs(c simCmd) (*simOutputs, error) {
	o := &simOutputs{}
	wanted := []simOutput{{flag: "json", path: c.JSON}, {flag: "csv", path: c.CSV}}
	if c.Timeline != "" {
		base := strings.TrimSuffix(c.Timeline, filepath.Ext(c.Timeline))
		wanted = append(wanted, simOutput{flag: "timeline", path: base + ".svg"}, simOutput{flag: "timeline", path: base + ".png"})
	}
	for _, k := range wanted {
		if k.path == "" || k.path == "-" {
			continue
		}
		if err := k.open(); err != nil {
			return nil, errors.Join(err, o.close())
		}
		other := o.sameAs(&k)
		o.files = append(o.files, k)
		if other != "" {
			return nil, errors.Join(fmt.Errorf("--%s: %s is the file of --%s", k.flag, k.path, other), o.close())
		}
	}
	if err := o.apart(c); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (k *simOutput) open() (err error) {
	k.file, err = os.OpenFile(k.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	k.made = err == nil
	if errors.Is(err, fs.ErrExist) {
		k.file, err = os.OpenFile(k.path, os.O_WRONLY, 0)
	}
	if err != nil {
		return fileError(k.flag, k.path, err)
	}
	return nil
}

// checkWritable opens a flag's file before the work begins whose result it is to
// hold, and leaves it as it was.
func checkWritable(flag, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0 {
		return nil // to open it and close it would be news to its reader
	}
	k := simOutput{flag: flag, path: path}
	if err := k.open(); err != nil {
		return err
	}
	err := k.file.Close()
	if k.made {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// fileError is of a flag's file that cannot be opened for writing, and says what
// to do.
func fileError(flag, path string, err error) error {
	help := "give a file that can be written"
	if info, e := os.Stat(path); e == nil && info.IsDir() {
		help = "give a file in that folder"
	} else if _, e := os.Stat(filepath.Dir(path)); errors.Is(e, fs.ErrNotExist) {
		help = fmt.Sprintf("make the folder %s first, or give a file in another one", filepath.Dir(path))
	}
	return fmt.Errorf("--%s: %w; %s", flag, err, help)
}

// sameAs is the flag of a file that is k's too, or "". Devices may have many
// writers.
func (o *simOutputs) sameAs(k *simOutput) string {
	info, err := k.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return o.flagOf(info)
}

func (o *simOutputs) flagOf(info fs.FileInfo) string {
	for i := range o.files {
		if of, err := o.files[i].file.Stat(); err == nil && os.SameFile(info, of) {
			return o.files[i].flag
		}
	}
	return ""
}

// apart demands that no output is a file that is read.
func (o *simOutputs) apart(c simCmd) error {
	read := []simOutput{{flag: "resume", path: c.Resume}, {flag: "trace", path: c.Trace}}
	for _, m := range c.Models {
		if strings.HasSuffix(m, ".csv") {
			_, once, _ := strings.Cut(m, "x") // 8xFILE.csv, or nothing that is there
			read = append(read, simOutput{flag: "models", path: m}, simOutput{flag: "models", path: once})
		}
	}
	for _, k := range read {
		info, err := os.Stat(k.path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if flag := o.flagOf(info); flag != "" {
			return fmt.Errorf("--%s: %s is the file of --%s", flag, k.path, k.flag)
		}
	}
	return nil
}

// write replaces what the flag's file holds.
func (o *simOutputs) write(flag string, text []byte) error {
	for i := range o.files {
		k := &o.files[i]
		if k.flag != flag {
			continue
		}
		info, err := k.file.Stat()
		if err == nil && info.Mode().IsRegular() {
			err = k.file.Truncate(0)
		}
		if err == nil {
			_, err = k.file.Write(text)
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	return nil
}

// close closes the files, and removes those that are new and still empty.
func (o *simOutputs) close() error {
	var errs []error
	for i := range o.files {
		k := &o.files[i]
		if err := k.file.Close(); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", k.flag, err))
		}
		if info, err := os.Stat(k.path); k.made && err == nil && info.Size() == 0 {
			errs = append(errs, os.Remove(k.path))
		}
	}
	return errors.Join(errs...)
}
