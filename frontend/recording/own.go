package recording

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrTaken is the cause where another process, or this one, writes the recording already.
var ErrTaken = errors.New("another process records into it: each frontend needs a file of its own (frontend.record)")

// own keeps others from writing the file too, for as long as it is open: the kernel lets go of it with the
// process, however that ends. Where the file system has no locks, nothing is kept.
func own(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() { // pipes and devices are for many
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s: %w", file.Name(), ErrTaken)
	}
	return nil
}
