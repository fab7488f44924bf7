package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// check refuses what cannot be measured, and flags that the part asked for chooses
// itself. cores are the machine's.
func (c schedulerCmd) check(cores []int) error {
	parts := 0
	for _, given := range []bool{c.Cores, c.Scaling, c.Disturb != nil, c.Heap != "", c.Replay, c.CompareTuner} {
		if given {
			parts++
		}
	}
	if parts > 1 {
		return errors.New("give one of --cores, --scaling, --disturb, --heap, --replay, --compare-tuner")
	}
	switch {
	case c.Scaling && (c.Loops != nil || c.GPUs != nil || c.Rate != nil):
		return errors.New("--scaling chooses --loops, --gpus and --rate itself")
	case c.Scaling && c.Profile != "":
		return errors.New("--scaling makes the profile for each rate: leave --profile out")
	case c.Cores && (c.Loops != nil || c.Duration != nil || len(c.Pin) > 0 || c.Wait != "auto" || c.Rank != "auto" || c.Spin != 0 || c.Doze != 0):
		return errors.New("--cores has no loops and no clock: leave --loops, --duration, --pin, --wait, --rank-thread, --spin and --doze out")
	case c.Cores && c.Profile != "" && c.Rate == nil:
		return errors.New("--cores --profile: give the --rate that such GPUs carry, too")
	case c.CompareTuner && c.Tuner == 0:
		return errors.New("--compare-tuner compares with one: give --tuner a share above 0")
	case c.SLO != nil && c.Profile != "":
		return errors.New("--profile brings its own SLO: leave --slo out, or give the profile as name:alpha:beta:slo")
	case c.Shape != nil && c.Arrivals != "gamma":
		return errors.New("--shape is of gamma: give --arrivals gamma, too")
	}
	if c.Garbage != "" && c.Heap == "" {
		return errors.New("--garbage is about a heap: give --heap SIZE, too")
	}
	if err := checkInts(optional("loops", c.Loops, 1, 64), optional("gpus", c.GPUs, 8, 4096), optional("models", c.Models, 1, 1000)); err != nil {
		return err
	}
	if err := checkBounds(optional("rate", c.Rate, 1, 1e8), optional("disturb", c.Disturb, 0.01, 1), optional("shape", c.Shape, 0.01, 100), bounded[float64]{"tuner", c.Tuner, 0, 0.5}); err != nil {
		return err
	}
	if err := checkBounds(optional("duration", c.Duration, 10*time.Millisecond, time.Hour), optional("slo", c.SLO, time.Millisecond, time.Minute),
		bounded[time.Duration]{"quantum", c.Quantum, time.Microsecond, 10 * time.Millisecond}, bounded[time.Duration]{"spin", c.Spin, 0, time.Second},
		bounded[time.Duration]{"doze", c.Doze, 0, time.Millisecond}); err != nil {
		return err
	}
	return checkPin(c.Pin, cores)
}

// checkPin demands that the machine has the processors.
func checkPin(pin, cores []int) error {
	for _, p := range pin {
		if !slices.Contains(cores, p) {
			return fmt.Errorf("--pin: %d: this machine has %s", p, coresText(cores))
		}
	}
	return nil
}

// coresText names them: a range where they are one.
func coresText(cores []int) string {
	if len(cores) == 0 {
		return "no processor that a thread can be pinned to"
	}
	first, last := cores[0], cores[len(cores)-1]
	switch {
	case len(cores) == 1:
		return fmt.Sprintf("processor %d alone", first)
	case last-first == len(cores)-1:
		return fmt.Sprintf("processors %d to %d", first, last)
	}
	return "processors " + strings.Trim(strings.ReplaceAll(fmt.Sprint(cores), " ", ", "), "[]")
}

// sizeFlag reads a size with its unit.
func sizeFlag(name, text string, least, most config.Size) (int64, error) {
	if _, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
		return 0, fmt.Errorf("--%s: %q has no unit: B, KiB, MiB or GiB", name, text)
	}
	n, err := config.ParseSize(text)
	if err != nil {
		return 0, fmt.Errorf("--%s: %w", name, err)
	}
	return int64(n), checkBounds(bounded[config.Size]{name, n, least, most})
}
