package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Size is a number of bytes, written "64MiB", "512KiB", "1GiB" or plain.
type Size int64

// ParseSize reads a Size; it must not be negative.
func ParseSize(s string) (Size, error) {
	units := []struct {
		suffix string
		shift  uint
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}, {"", 0}}
	for _, u := range units {
		number, ok := strings.CutSuffix(strings.TrimSpace(s), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64>>u.shift {
			break
		}
		return Size(n << u.shift), nil
	}
	return 0, fmt.Errorf("%q is no size: write a whole number with B, KiB, MiB or GiB", s)
}

func (s Size) String() string {
	switch {
	case s >= 1<<30 && s%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", s>>30)
	case s >= 1<<20 && s%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", s>>20)
	case s >= 1<<10 && s%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", s>>10)
	}
	return fmt.Sprintf("%dB", int64(s))
}

func parseSpan(s string) (mono.Dur, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is no span of time: write it with its unit, like 50ms or 1.5s", s)
	}
	return mono.Dur(d), nil
}
