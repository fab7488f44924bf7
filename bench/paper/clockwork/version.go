package clockwork

import "fmt"

// Version numbers what these results depend on beside sim.CoreVersion: what is loaded and
// unloaded, and by whom requests come. Raise it when one of them changes: kept results of
// another number are simulated again, and those of bench/paper are not touched.
//
// TestVersion fails when it should have been raised and was not.
const Version = 6

// kind is the kind of a figure's jobs.
func kind(figure string) string { return fmt.Sprintf("clockwork %d %s", Version, figure) }
