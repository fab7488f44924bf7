package catalog

import "fmt"

// Weigh looks over a document before it is decoded, without taking memory, and refuses
// one that would take far more than its bytes: too many elements of an array, too long a
// string, too deep a nesting. Whether it is JSON is left to the decoder.
//
// Keys that the decoder would take for other ones (in capitals, or escaped) are refused,
// too: nothing of ours writes them, and the limits go by the key.
func Weigh(data []byte) error {
	w := weigher{data: data}
	for w.at < len(data) {
		if err := w.step(); err != nil {
			return err
		}
	}
	return nil
}

// group are the arrays that are counted together over a document: what their elements
// take is far more than their bytes.
type group uint8

const (
	groupNone group = iota
	groupPools
	groupModels
	groupTensors
	groupHeld
	groups
)

// groupMax is how many elements a group may have.
func groupMax(g group) int { return [groups]int{0, PoolsMax, ModelsMax, tensorsAll, HeldMax}[g] }

// arrayMax is how many elements an array under key may have.
func arrayMax(key []byte) (most int, g group) {
	switch string(key) {
	case "pools":
		return PoolsMax, groupPools
	case "models":
		return ModelsMax, groupModels
	case "inputs", "outputs":
		return TensorsMax, groupTensors
	case "shape", "mean", "std":
		return dimsMax, groupNone
	case "held": // devices, and the models of each
		return ModelsMax, groupHeld
	case "ids", "gone", "slots", "load", "unload", "measure", "keys", "sources", "names", "served", "gone_models", "ordered", "brought":
		return ModelsMax, groupNone
	case "stock": // of a device: its list, and what was told of beside it
		return 4 * ModelsMax, groupNone
	case "shares":
		return versionsMax, groupNone
	case "": // of a document that is an array: labels
		return labelsMax, groupNone
	case "table_ns":
		return batchMax, groupNone
	case "stands", "named": // of all models
		return 4 * ModelsMax, groupNone
	case "free_in_ns", "in", "devices", "gpus", "gone_gpus", "sub_clusters", "told":
		return devicesMax, groupNone
	}
	return 1 << 30, groupNone
}

// stringMax is how many bytes a string under key may have.
func stringMax(key []byte) int {
	switch string(key) {
	case "name", "version", "device_type", "platform", "address", "gpu", "to", "sub_cluster":
		return 256
	case "type", "layout", "drop_policy":
		return 32
	case "digest":
		return 64
	}
	return 4096
}

// weigher walks over a document's brackets, commas and strings.
type weigher struct {
	data  []byte
	at    int
	open  [nestingMax]container
	depth int
	all   [groups]int
}

// container is an object or array that is open.
type container struct {
	array  bool
	key    []byte // of an object: the key at hand; of an array: the one it stands under
	keyed  bool   // an object whose key at hand has come: a string is its value
	length int    // an array's elements so far
}

// step takes the next byte, or string.
func (w *weigher) step() error {
	var top *container
	if w.depth > 0 {
		top = &w.open[w.depth-1]
	}
	c := w.data[w.at]
	w.at++
	switch c {
	case '"':
		return w.text(top)
	case '{', '[':
		if w.depth == nestingMax {
			return fmt.Errorf("%w: nested more than %d deep", ErrLimit, nestingMax)
		}
		in := container{array: c == '['}
		if top != nil {
			in.key = top.key
		}
		w.open[w.depth] = in
		w.depth++
		if in.array {
			return w.element(&w.open[w.depth-1])
		}
	case '}', ']':
		w.depth = max(0, w.depth-1)
	case ',':
		if top == nil {
			return nil
		}
		if top.array {
			return w.element(top)
		}
		top.keyed = false
	}
	return nil
}

// element counts one more of an array. (An empty one counts as of one.)
func (w *weigher) element(a *container) error {
	most, g := arrayMax(a.key)
	if a.length++; a.length > most {
		return fmt.Errorf("%w: %s: more than %d", ErrLimit, a.key, most)
	}
	if w.all[g]++; g != groupNone && w.all[g] > groupMax(g) {
		return fmt.Errorf("%w: %s: more than %d in all", ErrLimit, a.key, groupMax(g))
	}
	return nil
}

// text passes over a string, a key or a value.
func (w *weigher) text(top *container) error {
	begin := w.at
	for w.at < len(w.data) && w.data[w.at] != '"' {
		if w.data[w.at] == '\\' {
			w.at++
		}
		w.at++
	}
	end := min(w.at, len(w.data))
	w.at = end + 1
	s := w.data[begin:end]
	if top == nil || top.array || top.keyed {
		var key []byte
		if top != nil {
			key = top.key
		}
		if most := stringMax(key); len(s) > most {
			return fmt.Errorf("%w: %s: a string of %d bytes, at most %d", ErrLimit, key, len(s), most)
		}
		return nil
	}
	if len(s) > 64 {
		return fmt.Errorf("%w: a key of %d bytes", ErrLimit, len(s))
	}
	for _, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return fmt.Errorf("%w: key %q: keys are of small letters, digits and _", ErrLimit, s)
		}
	}
	top.key, top.keyed = s, true
	return nil
}
