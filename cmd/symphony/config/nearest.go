package config

import (
	"reflect"
	"strings"

	"github.com/symphony-serving/symphony/transport/nearest"
)

// nearestText names the key that was most likely meant; empty if none is near.
func nearestText(unknown string) string {
	unknown = strings.ToLower(withoutIndices(unknown))
	last := unknown[strings.LastIndex(unknown, ".")+1:]
	best, least := "", 2*((len(last)+1)/3+1) // a third of the letters may be wrong; half letters, see below
	for _, key := range keys(reflect.TypeFor[Config](), "") {
		d := 2 * nearest.Distance(unknown, key)
		if strings.HasSuffix(key, "."+last) {
			d = min(d, 3) // the name is right, the group is not: worse than one wrong letter
		}
		if d < least {
			best, least = key, d
		}
	}
	if best == "" {
		return ""
	}
	return ", the nearest is " + best
}

// withoutIndices makes backend.pools[0].kind backend.pools.kind.
func withoutIndices(key string) string {
	var out strings.Builder
	for part := range strings.SplitSeq(key, "[") {
		_, rest, ok := strings.Cut(part, "]")
		if !ok {
			rest = part
		}
		out.WriteString(rest)
	}
	return out.String()
}

// keys are all of a struct and its parts, groups too: a group may be misspelt as well.
func keys(t reflect.Type, prefix string) (all []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		all = append(all, prefix+name)
		of := f.Type
		if of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct {
			all = append(all, keys(of, prefix+name+".")...)
		}
	}
	return all
}
