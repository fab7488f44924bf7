package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport"
)

// Addresses are one or several: in a file a text or a list, with commas between in a flag and in
// the environment. Where groups may be, those of one have + between.
type Addresses []string

// splitAddresses takes a text apart. Nothing is no address.
func splitAddresses(text string) Addresses {
	out := Addresses{} // not nil, which would be as if nothing was said
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// addressesHook reads a text where a list may be.
func addressesHook(from, to reflect.Type, v any) (any, error) {
	if to != reflect.TypeFor[Addresses]() || from.Kind() != reflect.String {
		return v, nil
	}
	return []string(splitAddresses(fmt.Sprint(v))), nil
}

// validateGroups is validate where one of them may be a group: addresses with + between.
func (a Addresses) validateGroups(r *report, key string, most int) {
	var all Addresses
	for _, group := range a {
		for _, one := range transport.SplitGroup(group) {
			r.need(one != "", key, "%q lacks an address beside +: write A+B for a group of schedulers, of which one leads", group)
			if one != "" {
				all = append(all, one)
			}
		}
	}
	all.validate(r, key, most)
}

// validate checks each, that there is one, and none twice.
func (a Addresses) validate(r *report, key string, most int) {
	r.need(len(a) > 0 && len(a) <= most, key, "names %d addresses, must be 1 to %d", len(a), most)
	for i, one := range a {
		r.address(key, one)
		r.need(slices.Index(a, one) == i, key, "%q is there twice", one)
	}
}
