package pages

import (
	"io"
	"os"
	"runtime"
)

// File is a file's bytes in memory outside the Go heap, where that can be: in it, files of some hundreds of megabytes would
// have the collector let garbage grow to a multiple of that. The memory goes back with Close, or when the File is found to be
// unreachable: who hands the bytes to a library keeps the File alive meanwhile (runtime.KeepAlive).
type File struct {
	data   []byte
	mapped runtime.Cleanup
}

// anyNode: where on a host the bytes lie does not matter.
const anyNode = -1

// ReadFile reads a file from its begin.
func ReadFile(from *os.File) (*File, error) {
	info, err := from.Stat()
	if err != nil {
		return nil, err
	}
	all, f := io.NewSectionReader(from, 0, info.Size()), &File{}
	if info.Size() > 0 {
		if mem, err := Map(int(info.Size()), anyNode); err == nil {
			f.data, f.mapped = mem, runtime.AddCleanup(f, func(mem []byte) { _ = Unmap(mem) }, mem)
			if _, err := io.ReadFull(all, f.data); err != nil {
				f.Close()
				return nil, err
			}
			return f, nil
		}
	}
	if f.data, err = io.ReadAll(all); err != nil {
		return nil, err
	}
	return f, nil
}

// Bytes are the file's, until Close.
func (f *File) Bytes() []byte { return f.data }

// Close gives the memory back. Again, it does nothing.
func (f *File) Close() {
	f.mapped.Stop()
	if f.mapped != (runtime.Cleanup{}) {
		_ = Unmap(f.data)
	}
	f.data, f.mapped = nil, runtime.Cleanup{}
}
