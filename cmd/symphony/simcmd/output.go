package simcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
)

// outputs are the files that the flags name. They are opened before anything
// is simulated: an hour's result must not be lost to a folder that is not there.
// What they hold is not touched before there is a result.
//
// Two outputs in one file, or an output in a file that is read, are refused,
// whatever their paths look like.
type outputs struct{ files []output }

type output struct {
	flag, path string
	file       *os.File
	made       bool // here, and empty until it is written
}

// openOutputs opens the files of --json, --csv, --events and --timeline.
func openOutputs(c Command) (*outputs, error) {
	o := &outputs{}
	wanted := []output{{flag: "json", path: c.JSON}, {flag: "csv", path: c.CSV}, {flag: "events", path: c.EventsFile}}
	if c.Timeline != "" {
		base := strings.TrimSuffix(c.Timeline, filepath.Ext(c.Timeline))
		wanted = append(wanted, output{flag: "timeline", path: base + ".svg"}, output{flag: "timeline", path: base + ".png"})
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

func (k *output) open() (err error) {
	k.file, k.made, err = cli.OpenOutput(k.flag, k.path)
	return err
}

// sameAs is the flag of a file that is k's too, or "". Devices may have many
// writers.
func (o *outputs) sameAs(k *output) string {
	info, err := k.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return o.flagOf(info)
}

func (o *outputs) flagOf(info fs.FileInfo) string {
	for i := range o.files {
		if of, err := o.files[i].file.Stat(); err == nil && os.SameFile(info, of) {
			return o.files[i].flag
		}
	}
	return ""
}

// apart demands that no output is a file that is read.
func (o *outputs) apart(c Command) error {
	read := []output{{flag: "resume", path: c.Resume}, {flag: "trace", path: c.Trace}}
	for _, m := range c.Models {
		if strings.HasSuffix(m, ".csv") {
			_, once, _ := strings.Cut(m, "x") // 8xFILE.csv, or nothing that is there
			read = append(read, output{flag: "models", path: m}, output{flag: "models", path: once})
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
func (o *outputs) write(flag string, text []byte) error {
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
func (o *outputs) close() error {
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
