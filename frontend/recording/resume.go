package recording

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// lineMax is more than a line can have: names of models and versions are short.
const lineMax = 64 << 10

// errOther is a file that something else has written.
var errOther = errors.New("is there and no recording of this version: move it away, or name another file")

// resume finds out where a recording goes on that was begun before, as after a restart: how many bytes
// there are, and its last request's time, in unix nanoseconds; 0, 0: it begins. Half a line at its end, of a
// process that was killed, is cut off.
func resume(path string) (size, last int64, err error) {
	info, err := os.Stat(path)
	if path == "-" || errors.Is(err, os.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		return 0, 0, nil // a pipe has no past
	}
	if err != nil {
		return 0, 0, err // it names the path
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	size = info.Size()
	head := make([]byte, min(size, int64(len(Header))))
	if _, err := file.ReadAt(head, 0); err != nil {
		return 0, 0, err
	}
	if !bytes.HasPrefix([]byte(Header), head) {
		return 0, 0, fmt.Errorf("%s %w", path, errOther)
	}
	if len(head) < len(Header) { // it was killed at once
		return 0, 0, file.Truncate(0)
	}
	tail := make([]byte, min(size, lineMax))
	from := size - int64(len(tail))
	if _, err := file.ReadAt(tail, from); err != nil {
		return 0, 0, err
	}
	end := bytes.LastIndexByte(tail, '\n') + 1
	if end == 0 {
		return 0, 0, fmt.Errorf("%s %w", path, errOther)
	}
	if from+int64(end) < size {
		size = from + int64(end)
		if err := file.Truncate(size); err != nil {
			return 0, 0, err
		}
	}
	if size == int64(len(Header)) {
		return size, 0, nil
	}
	line := tail[bytes.LastIndexByte(tail[:end-1], '\n')+1 : end]
	if last, err = timeOf(line); err != nil {
		return 0, 0, fmt.Errorf("%s %w", path, errOther)
	}
	return size, last, nil
}

// timeOf is a line's timestamp, in unix nanoseconds.
func timeOf(line []byte) (int64, error) {
	text, _, _ := bytes.Cut(line, []byte{','})
	seconds, micros, ok := bytes.Cut(text, []byte{'.'})
	if !ok || len(micros) != 6 {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseInt(string(seconds), 10, 33)
	if err != nil {
		return 0, err
	}
	u, err := strconv.ParseUint(string(micros), 10, 32)
	return n*1e9 + int64(u)*1e3, err
}
