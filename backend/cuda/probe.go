package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

const (
	probeBytes = 1 << 20
	probeMax   = 5 * time.Second
)

// Try reports whether a device that was lost can be used again: it opens it, allocates, and
// copies there and back. It takes as long as the driver, which may hang.
func Try(d Driver, index int) error {
	c, err := d.Open(index)
	if err == nil {
		err = errors.Join(On(c, func() error { return probe(c) }), c.Close())
	}
	if err != nil {
		return fmt.Errorf("GPU %d cannot be used: %w", index, err)
	}
	return nil
}

// Probe is Try for some seconds: the thread of one that hangs is left alone, so probe seldom.
func Probe(d Driver, index int) error {
	err := within(probeMax, func() error { return Try(d, index) })
	if errors.Is(err, errSilent) {
		return fmt.Errorf("GPU %d cannot be used: %w: %w", index, ErrLost, err)
	}
	return err
}

func probe(c Context) (err error) {
	later := func(f func() error) { err = errors.Join(err, f()) }
	at, err := c.Alloc(probeBytes)
	if err != nil {
		return err
	}
	defer later(func() error { return c.Free(at) })
	host, err := c.HostAlloc(2 * probeBytes)
	if err != nil {
		return err
	}
	defer later(func() error { return c.HostFree(host) })
	s, err := c.NewStream(false)
	if err != nil {
		return err
	}
	defer later(s.Close)
	there, back := host[:probeBytes], host[probeBytes:]
	for i := range there {
		there[i] = byte(i*7 + i>>8)
	}
	clear(back)
	if err := s.CopyIn(at, there); err != nil {
		return err
	}
	if err := s.CopyOut(back, at); err != nil {
		return err
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	if !bytes.Equal(there, back) {
		return fmt.Errorf("%w: of %d bytes that were copied there and back some are others", ErrLost, probeBytes)
	}
	return nil
}
