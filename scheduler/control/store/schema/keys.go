package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NameMax is the longest name of a model, version, backend, sub-cluster or device type.
const NameMax = 256 // bytes

// Kind is a family of documents of one type.
type Kind struct {
	Name     string
	BytesMax int // of one document
	CountMax int // of documents
	// Live documents belong to a lease: they end with the process that wrote them, and a
	// migration leaves them out.
	Live bool
}

// The kinds. Counts allow ten thousand models with a few versions and device types each.
func Models() Kind   { return Kind{Name: "models", BytesMax: 64 << 10, CountMax: ModelsMax} }
func Observed() Kind { return Kind{Name: "observed", BytesMax: 8 << 10, CountMax: VersionsAll} }
func Backends() Kind {
	return Kind{Name: "backends", BytesMax: 1 << 20, CountMax: 4096, Live: true}
}
func Loads() Kind    { return Kind{Name: "loads", BytesMax: 8 << 10, CountMax: VersionsAll} }
func Profiles() Kind { return Kind{Name: "profiles", BytesMax: 32 << 10, CountMax: 4 * VersionsAll} }
func Plans() Kind {
	return Kind{Name: "plans", BytesMax: 16 << 10, CountMax: 2*PlansKept + SchedulersMax}
}
func Parts() Kind {
	return Kind{Name: "parts", BytesMax: 1 << 20, CountMax: (2*PlansKept + SchedulersMax) * SubClustersMax}
}
func Controls() Kind { return Kind{Name: "controls", BytesMax: 4 << 10, CountMax: 16} }

// Limits on numbers.
const (
	ModelsMax      = 10_000 // in a cluster
	VersionsAll    = 40_000 // of all models
	VersionsMax    = 32     // of one model
	SubClustersMax = 256    // of a plan
	SubClusterMax  = 4096   // models of a sub-cluster
	PlansKept      = 32     // the newest ones, for the history
	SchedulersMax  = 64     // each with a plan that holds, however old
	PastMax        = 16     // shares that a roll-back can return to
	DevicesMax     = 4096   // of a backend
	TypesMax       = 16     // device types that a model names
	TextMax        = 1024   // bytes of a reason or an address
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{Models(), Observed(), Backends(), Loads(), Profiles(), Plans(), Parts(), Controls()}
}

// KindOf finds the kind of a key below a version, "models/NAME".
func KindOf(key string) (Kind, bool) {
	name, rest, _ := strings.Cut(key, "/")
	for _, k := range Kinds() {
		if k.Name == name && rest != "" {
			return k, true
		}
	}
	return Kind{}, false
}

// Keys below the prefix that are no documents of a version.
const (
	SchemaKey = "schema" // State
	LockKey   = "migrating"
	LeaderKey = "leader" // below the version
)

// Of is the folder of a version: "1/".
func Of(version int) string { return strconv.Itoa(version) + "/" }

// Escape makes a name a part of a key: everything but letters, digits, '.', '_' and '-'
// becomes %XX. Different names stay different, and Unescape gives them back.
func Escape(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// Unescape is the name that a part of a key was made of. It refuses what Escape never
// makes, so that one name has one key.
func Unescape(part string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] != '%' {
			b.WriteByte(part[i])
			continue
		}
		if i+2 >= len(part) {
			return "", fmt.Errorf("key %q ends within an escape", part)
		}
		v, err := strconv.ParseUint(part[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("key %q: %q is no escape", part, part[i:i+3])
		}
		b.WriteByte(byte(v))
		i += 2
	}
	if name := b.String(); part != "" && Escape(name) == part {
		return name, nil
	}
	return "", fmt.Errorf("key %q is not written as keys are", part)
}

// ID joins names to what follows the kind in a key.
func ID(names ...string) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = Escape(n)
	}
	return strings.Join(parts, "/")
}

// EpochID is a plan's: with zeros in front, so that keys are in the order of epochs.
func EpochID(epoch uint64) string { return fmt.Sprintf("%020d", epoch) }

var errName = errors.New("is empty, too long, or has characters that cannot be printed")

// checkName refuses what could not be typed or shown.
func checkName(what, name string) error {
	ok := name != "" && len(name) <= NameMax && utf8.ValidString(name)
	for _, r := range name {
		ok = ok && unicode.IsPrint(r)
	}
	if !ok {
		return fmt.Errorf("%s %.40q %w: 1 to %d bytes", what, name, errName, NameMax)
	}
	return nil
}

// checkText bounds what is for people.
func checkText(what, text string) error {
	if len(text) > TextMax || !utf8.ValidString(text) {
		return fmt.Errorf("%s has %d bytes or is no text: at most %d", what, len(text), TextMax)
	}
	return nil
}
