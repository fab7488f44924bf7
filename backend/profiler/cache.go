package profiler

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// stored is a profile on disk, with what it is valid for.
type stored struct {
	Model   string `json:"model"` // SHA-256 of the model's file
	Runtime string `json:"runtime"`
	Device  string `json:"device_type"`
	Threads int    `json:"threads"`
	Batch   int    `json:"max_batch"`
	Warmup  string `json:"warmup,omitempty"` // what the setting warmup is, with its files
	Host
	GPU
	Profile catalog.Profile `json:"profile"`
	Inputs  string          `json:"measured_on,omitempty"` // for people
	Guessed []int           `json:"estimated,omitempty"`   // batch sizes that there was no time for: from the others
	Points  []Point         `json:"measured,omitempty"`
	At      time.Time       `json:"at,omitzero"`      // when it was measured or learnt; files of before have none
	Learnt  *Learnt         `json:"learnt,omitempty"` // nil: it was measured
}

// Key says what a stored profile must have been measured on.
type Key struct {
	ModelPath string
	Dir       string // the model's folder, or another place for profiles
	Version   string
	Runtime   string
	Device    string
	Threads   int
	MaxBatch  int
	Warmup    string // warmup.Inputs.Print
	Host      Host   // of a device of this host's processors
	GPU       GPU    // of one that is a GPU
}

// Mismatch is why a stored profile is not that of a key.
type Mismatch struct {
	Field  string // in which it differs first
	Stored string // "" where the file does not tell: it was written before profiles had the field
	Here   string
}

// Error implements error.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("the stored profile's %s is %q, here it is %q", m.Field, m.Stored, m.Here)
}

func (k Key) path() string {
	return filepath.Join(k.Dir, "profiles", fmt.Sprintf("%s-v%s.json", k.Device, k.Version))
}

func (k Key) hash() (string, error) {
	f, err := os.Open(k.ModelPath)
	if err != nil {
		return "", err
	}
	defer f.Close()
	// In pieces: one call for a large file holds up the collector, and with it all that serves.
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Read finds the profile that was stored for the key. The error is os.ErrNotExist where
// there is none, and a *Mismatch where there is one of another file, library, setting or
// host: how long a batch takes there says nothing about here.
func Read(k Key) (catalog.Profile, error) {
	text, err := os.ReadFile(k.path())
	if err != nil {
		return catalog.Profile{}, err
	}
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return catalog.Profile{}, fmt.Errorf("%s: %w", k.path(), err)
	}
	here, err := k.stored()
	if err != nil {
		return catalog.Profile{}, err
	}
	if m := s.differs(&here); m != nil {
		return catalog.Profile{}, m
	}
	return s.Profile, nil
}

// stored is what a file of the key says beside the profile.
func (k Key) stored() (stored, error) {
	hash, err := k.hash()
	return stored{Model: hash, Runtime: k.Runtime, Device: k.Device, Threads: k.Threads, Batch: k.MaxBatch, Warmup: k.Warmup, Host: k.Host, GPU: k.GPU}, err
}

// differs is the first field in which s is of something else than here; nil: none.
func (s *stored) differs(here *stored) *Mismatch {
	count := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	for _, f := range []Mismatch{
		{"model file", s.Model, here.Model},
		{"runtime", s.Runtime, here.Runtime},
		{"device type", s.Device, here.Device},
		{"threads", count(s.Threads), count(here.Threads)},
		{"max_batch", count(s.Batch), count(here.Batch)},
		{"warmup", s.Warmup, here.Warmup},
		{"CPU", s.CPU, here.CPU},
		{"number of processors", count(s.Processors), count(here.Processors)},
		{"GPU", s.Product, here.Product},
		{"driver", s.Driver, here.Driver},
		{"power limit", s.Power, here.Power},
		{"precision", s.Precision, here.Precision},
		{"provider", s.Provider, here.Provider},
		{"CUDA graphs", s.Graphs, here.Graphs},
		{"batch sizes", list(s.Sizes), list(here.Sizes)},
	} {
		unknown := f.Field == "power limit" && (f.Stored == "" || f.Here == "") // without NVML
		if f.Stored != f.Here && !unknown {
			return &f
		}
	}
	return nil
}

// Write stores a measured profile and returns where.
func Write(k Key, r *Result) (string, error) {
	doc, err := k.stored()
	if err != nil {
		return "", err
	}
	doc.Profile, doc.Points, doc.Guessed = r.Profile.Doc(), r.Points, r.Estimated
	doc.Inputs = r.Inputs.String()
	return doc.write(k)
}

// write puts it where Read finds it. The one before is there until this one is whole.
func (s *stored) write(k Key) (string, error) {
	s.At = time.Now().UTC().Truncate(time.Millisecond)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", err
	}
	path := k.path()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(path+".part", append(text, '\n'), 0o644); err != nil {
		return "", err
	}
	return path, os.Rename(path+".part", path)
}
