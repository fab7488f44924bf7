package profiler

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// stored is a profile on disk, with what it is valid for.
type stored struct {
	Model   string          `json:"model"` // SHA-256 of the model's file
	Runtime string          `json:"runtime"`
	Device  string          `json:"device_type"`
	Threads int             `json:"threads"`
	Batch   int             `json:"max_batch"`
	Profile catalog.Profile `json:"profile"`
	Points  []Point         `json:"measured,omitempty"`
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
}

func (k Key) path() string {
	return filepath.Join(k.Dir, "profiles", fmt.Sprintf("%s-v%s.json", k.Device, k.Version))
}

func (k Key) hash() (string, error) {
	b, err := os.ReadFile(k.ModelPath)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Read finds the profile that was stored for the key; false when there is none,
// or one of another file, library, or setting.
func Read(k Key) (catalog.Profile, bool) {
	text, err := os.ReadFile(k.path())
	if err != nil {
		return catalog.Profile{}, false
	}
	var s stored
	hash, err := k.hash()
	if err != nil || json.Unmarshal(text, &s) != nil {
		return catalog.Profile{}, false
	}
	same := s.Model == hash && s.Runtime == k.Runtime && s.Device == k.Device && s.Threads == k.Threads && s.Batch == k.MaxBatch
	return s.Profile, same
}

// Write stores a measured profile and returns where.
func Write(k Key, r *Result) (string, error) {
	hash, err := k.hash()
	if err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(stored{hash, k.Runtime, k.Device, k.Threads, k.MaxBatch, r.Profile.Doc(), r.Points}, "", "  ")
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
