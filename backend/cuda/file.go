package cuda

import (
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/pages"
)

// File is a model's file in the host's memory, of which programs are made over and over without the disk.
//
// The bytes lie outside the Go heap, where that can be: in it, files of some hundreds of megabytes would have the
// collector let garbage grow to a multiple of that. They go back with the last use, or when the File is found to be
// unreachable. The methods of nil do nothing: a model may have no File.
type File struct {
	data   []byte // Immutable while it is in use.
	mapped runtime.Cleanup
	uses   atomic.Int64

	checking sync.Mutex // Guards what follows.
	right    bool       // a check has said so
}

// anyNode: where on a host the bytes lie does not matter.
const anyNode = -1

// ReadFile reads one. It is the caller's, until Close.
func ReadFile(path string) (*File, error) {
	from, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return nil, err
	}
	f := &File{}
	f.uses.Store(1)
	if info.Size() > 0 {
		if mem, err := pages.Map(int(info.Size()), anyNode); err == nil {
			f.data = mem
			f.mapped = runtime.AddCleanup(f, func(mem []byte) { _ = pages.Unmap(mem) }, mem)
			if _, err := io.ReadFull(from, f.data); err != nil {
				f.Close()
				return nil, err
			}
			return f, nil
		}
	}
	if f.data, err = io.ReadAll(from); err != nil {
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
	f.mapped.Stop()
	if f.mapped != (runtime.Cleanup{}) {
		_ = pages.Unmap(f.data)
	}
	f.data, f.mapped = nil, runtime.Cleanup{}
}

// Bytes are its own. Who hands them to a library keeps the File alive meanwhile (runtime.KeepAlive).
func (f *File) Bytes() []byte { return f.data }

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
