package cuda

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/pages"
)

// File is a model's file in the host's memory, of which programs are made over and over without the disk.
//
// The bytes go back with the last use, or when the File is found to be unreachable (pages.File). The methods of nil do
// nothing: a model may have no File.
type File struct {
	data *pages.File // Immutable while it is in use.
	uses atomic.Int64

	checking sync.Mutex // Guards what follows.
	right    bool       // a check has said so
}

// ReadFile reads one. It is the caller's, until Close.
func ReadFile(path string) (*File, error) {
	from, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	f := &File{}
	f.uses.Store(1)
	f.data, err = pages.ReadFile(from)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Use is one more use of a File that is in use: its bytes stay until Close was called for it, too.
func (f *File) Use() {
	if f != nil {
		f.uses.Add(1)
	}
}

// Close ends a use.
func (f *File) Close() {
	if f == nil || f.uses.Add(-1) > 0 {
		return
	}
	f.data.Close()
}

// Bytes are its own. Who hands them to a library keeps the File alive meanwhile (runtime.KeepAlive).
func (f *File) Bytes() []byte { return f.data.Bytes() }

// Checked makes a check until one has found nothing wrong: the bytes do not change. (What is wrong may be the host, that has no more
// files to open.)
func (f *File) Checked(check func() error) error {
	f.checking.Lock()
	defer f.checking.Unlock()
	if f.right {
		return nil
	}
	err := check()
	f.right = err == nil
	return err
}
