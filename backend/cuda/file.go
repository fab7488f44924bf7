package cuda

import (
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/symphony-serving/symphony/transport/pages"
)

// File is a model's file in the host's memory, of which programs are made over and over without the disk.
//
// The bytes lie outside the Go heap, where that can be: in it, files of some hundreds of megabytes would have the
// collector let garbage grow to a multiple of that. They go back when the File is found to be unreachable.
type File struct {
	data []byte // Immutable.

	once  sync.Once
	wrong error // Immutable, once it was checked.
}

// anyNode: where on a host the bytes lie does not matter.
const anyNode = -1

// ReadFile reads one.
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
	if info.Size() > 0 {
		if mem, err := pages.Map(int(info.Size()), anyNode); err == nil {
			f.data = mem
			runtime.AddCleanup(f, func(mem []byte) { _ = pages.Unmap(mem) }, mem)
			_, err = io.ReadFull(from, f.data)
			return f, err
		}
	}
	f.data, err = io.ReadAll(from)
	return f, err
}

// Bytes are its own. Who hands them to a library keeps the File alive meanwhile (runtime.KeepAlive).
func (f *File) Bytes() []byte { return f.data }

// Checked is what a check said when it was made the first time: the bytes do not change.
func (f *File) Checked(check func() error) error {
	f.once.Do(func() { f.wrong = check() })
	return f.wrong
}
