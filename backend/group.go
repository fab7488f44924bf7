package backend

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport"
)

// groupOf takes the addresses of a group of schedulers apart, of which one leads and the others are
// spares: "tcp:a:9000+tcp:b:9000". One that stands alone is a group of one.
func groupOf(addresses string) ([]string, error) {
	all := transport.SplitGroup(addresses)
	if len(all) > transport.GroupMax {
		return nil, fmt.Errorf("%d schedulers in a group, at most %d are taken", len(all), transport.GroupMax)
	}
	for i, one := range all {
		if len(all) > 1 && one == "" {
			return nil, fmt.Errorf("%q: an address is missing beside a +: write the group's as tcp:HOST:PORT+tcp:HOST:PORT", addresses)
		}
		if slices.Index(all, one) != i {
			return nil, fmt.Errorf("%q: %q is there twice", addresses, one)
		}
	}
	return all, nil
}
