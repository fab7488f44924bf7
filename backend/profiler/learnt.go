package profiler

import (
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Learnt says that a stored profile was corrected by batches that ran.
type Learnt struct {
	Runs    int `json:"runs"`          // how many
	Largest int `json:"largest_batch"` // of what ran: what the profile says of larger ones is a guess
}

// WriteLearnt stores a profile that was learnt, in the place of the one that was measured, and returns
// where. It reads the model's file whole.
func WriteLearnt(k Key, p *profile.Profile, how Learnt) (string, error) {
	doc, err := k.stored()
	if err != nil {
		return "", err
	}
	doc.Profile, doc.Learnt = p.Doc(), &how
	return doc.write(k)
}

// History says when a profile was stored for the key, and whether it was learnt. The zero time: it is not
// the one that is stored, or that is not known.
func History(k Key, p catalog.Profile) (at time.Time, learnt *Learnt) {
	text, err := os.ReadFile(k.path())
	if err != nil {
		return time.Time{}, nil
	}
	var s stored
	if json.Unmarshal(text, &s) != nil || s.Profile.Alpha != p.Alpha || s.Profile.Beta != p.Beta || !slices.Equal(s.Profile.Table, p.Table) {
		return time.Time{}, nil
	}
	return s.At, s.Learnt
}
