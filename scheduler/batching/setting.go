package batching

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Setting says how much of the deferral is spent, and what goes with it. All settings obey the
// same deadlines; which one loses least depends on the load, the GPUs and the other models
// (scheduler/tuner chooses). The zero Setting is the whole deferral.
type Setting struct {
	// Haste is how much of the deferral is left out, in parts of HasteAll: a batch is due at
	// open - (open - since) * Haste / HasteAll, where open is when deferral alone would start it, and
	// since is when its model's queue became non-empty.
	Haste uint8
	// Frontrun: deferral alone would start a batch at its frontrun, as the paper has it, whatever the
	// model has learnt. Not under Shed on one GPU, which would idle until then.
	Frontrun bool
	// Alone: a first request does not wait for company.
	Alone bool
	// ByLatest: GPUs go to the candidate with the least latest, without head starts for models that
	// lose more than others.
	ByLatest bool
	// Head: the drop policy head, for all models.
	Head bool
	// Shed: heads are given up whenever fewer fit behind them than wait and than can gather within the SLO, before there is a
	// GPU for them (early.go).
	Shed bool
	// Room: some GPUs take no batches but of models that cannot wait for those of others (rank/room.go).
	Room bool
	// Cheap: GPUs go to the model whose requests take the least GPU time, and the dearest ones are lost where not all can be
	// served (rank/cheap.go).
	Cheap bool
	// Cap bounds how long a batch holds a GPU, for other models may wait for it: it stops growing where its
	// requests per GPU second come to this percentage of the pooled batch's (target.go). 0: no cap.
	Cap uint8
}

// HasteAll is the Haste of a batch that starts as soon as there is a GPU.
const HasteAll = 16

// String is the setting as ParseSetting reads it: the share of the deferral that is spent, and
// what differs from the whole deferral.
func (s Setting) String() string {
	parts := []string{strconv.FormatFloat(1-float64(float64(s.Haste)/HasteAll), 'g', -1, 64)}
	for _, f := range s.flags() {
		if *f.on {
			parts = append(parts, f.name)
		}
	}
	if s.Cap > 0 {
		parts = append(parts, capName+strconv.Itoa(int(s.Cap)))
	}
	return strings.Join(parts, "+")
}

const (
	capName = "cap"
	capMost = 99 // percent
)

type flag struct {
	name string
	on   *bool
}

func (s *Setting) flags() []flag {
	return []flag{{"frontrun", &s.Frontrun}, {"alone", &s.Alone}, {"latest", &s.ByLatest}, {"head", &s.Head}, {"shed", &s.Shed}, {"room", &s.Room}, {"cheap", &s.Cheap}}
}

// ErrSetting is the cause when a setting cannot be read.
var ErrSetting = errors.New("must be the share of the deferral that is spent, 0 to 1, and any of +frontrun, +alone, +latest, +head, +shed, +room, +cheap, +cap1 to +cap99")

// ParseSetting reads "1" (the whole deferral), "0+alone+latest" (none of it), "0.5+frontrun+cap90".
func ParseSetting(text string) (s Setting, err error) {
	share, rest, more := strings.Cut(text, "+")
	v, err := strconv.ParseFloat(share, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return s, fmt.Errorf("share %q: %w", share, ErrSetting)
	}
	s.Haste = uint8(float64((1-v)*HasteAll) + 0.5)
	for name := ""; more; {
		name, rest, more = strings.Cut(rest, "+")
		known := s.parseCap(name)
		for _, f := range s.flags() {
			if f.name == name {
				*f.on, known = true, true
			}
		}
		if !known {
			return s, fmt.Errorf("%q: %w", name, ErrSetting)
		}
	}
	if s.Head && s.Shed {
		return s, fmt.Errorf("head drops as late as can be, shed early: %w", ErrSetting)
	}
	return s, nil
}

// parseCap tells whether a part of a setting's text is a cap.
func (s *Setting) parseCap(text string) bool {
	digits, ok := strings.CutPrefix(text, capName)
	percent, err := strconv.ParseUint(digits, 10, 8)
	if !ok || err != nil || percent == 0 || percent > capMost || digits[0] == '0' || s.Cap != 0 {
		return false
	}
	s.Cap = uint8(percent)
	return true
}
