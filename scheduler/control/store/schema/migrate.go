package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Pair is a document with its key below the version: "models/NAME".
type Pair struct {
	Key   string
	Value []byte
}

// Migration turns all documents of version From into those of the next one. Apply is pure:
// it is handed the documents in the order of their keys, may not change their bytes, and
// whether it ran once or was interrupted and ran again makes no difference.
type Migration struct {
	From  int
	What  string // in few words, for the log
	Apply func([]Pair) ([]Pair, error)
}

// Migrations are all there are, one for each version before this one.
func Migrations() []Migration {
	return []Migration{
		{From: 0, What: "a model's versions become one document; spans are in nanoseconds", Apply: fromDraft},
	}
}

// Migrate applies what leads from one version to another, in turn.
func Migrate(all []Migration, pairs []Pair, from, to int) ([]Pair, error) {
	for v := from; v < to; v++ {
		i := slices.IndexFunc(all, func(m Migration) bool { return m.From == v })
		if i < 0 {
			return nil, fmt.Errorf("no migration leads from version %d to %d", v, v+1)
		}
		slices.SortFunc(pairs, func(a, b Pair) int { return strings.Compare(a.Key, b.Key) })
		next, err := all[i].Apply(pairs)
		if err != nil {
			return nil, fmt.Errorf("migration of version %d to %d: %w", v, v+1, err)
		}
		pairs = next
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return strings.Compare(a.Key, b.Key) })
	return pairs, nil
}

// PairOf is a document as it is kept.
func PairOf(k Kind, d Document) (Pair, error) {
	if err := d.Check(); err != nil {
		return Pair{}, fmt.Errorf("%s %s: %w", k.Name, d.ID(), err)
	}
	value, err := json.Marshal(d)
	if err != nil {
		return Pair{}, fmt.Errorf("%s %s: %w", k.Name, d.ID(), err)
	}
	if len(value) > k.BytesMax {
		return Pair{}, &TooLargeError{Kind: k.Name, ID: d.ID(), Bytes: len(value), Max: k.BytesMax}
	}
	return Pair{k.Name + "/" + d.ID(), value}, nil
}

// Decode reads a document and checks that it is what its key says.
func Decode[T Document](k Kind, id string, value []byte) (T, error) {
	var d T
	if len(value) > k.BytesMax {
		return d, &TooLargeError{Kind: k.Name, ID: id, Bytes: len(value), Max: k.BytesMax}
	}
	err := json.Unmarshal(value, &d)
	if err == nil {
		err = d.Check()
	}
	if err == nil && d.ID() != id {
		err = fmt.Errorf("it is of %s", d.ID())
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("%s/%s: %w", k.Name, id, err)
	}
	return d, nil
}

// TooLargeError refuses a document beyond its kind's bound.
type TooLargeError struct {
	Kind, ID   string
	Bytes, Max int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s %s has %d bytes, at most %d: name fewer or shorter things in it", e.Kind, e.ID, e.Bytes, e.Max)
}
