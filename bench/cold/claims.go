package cold

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Claim is what is to be shown.
type Claim struct {
	What, Want, Found string
	Holds             bool
}

// failed is why a run shows not what it should; "": it does.
func failed(interrupted bool, claims []Claim) string {
	if interrupted {
		return "interrupted: the report has what was measured by then"
	}
	n := 0
	for _, c := range claims {
		if !c.Holds {
			n++
		}
	}
	if n > 0 {
		return fmt.Sprintf("%d of %d claims do not hold", n, len(claims))
	}
	return ""
}

func printClaims(to io.Writer, claims []Claim) {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, k := range claims {
		holds := "holds"
		if !k.Holds {
			holds = "DOES NOT HOLD"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", k.What, k.Want, k.Found, holds)
	}
	t.Flush()
}
