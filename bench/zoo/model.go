package zoo

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Model is one model: l(b) = Alpha*b + Beta.
type Model struct {
	Name  string   `json:"name"`
	Alpha mono.Dur `json:"alpha_ns"`
	Beta  mono.Dur `json:"beta_ns"`
	SLO   mono.Dur `json:"slo_ns"`
}

// Check says what is wrong with the model by itself. Whether its SLO can be
// met depends on the network, and is the caller's question.
func (m Model) Check() error {
	switch {
	case m.Name == "":
		return fmt.Errorf("the model has no name")
	case strings.ContainsAny(m.Name, ":,\"' \t"):
		return fmt.Errorf("model %q: a name has no colon, comma, quote or space", m.Name)
	case m.Alpha < 0 || m.Beta < 0 || m.Alpha+m.Beta == 0:
		return fmt.Errorf("model %s: alpha %v and beta %v must not be below 0, nor both 0", m.Name, m.Alpha, m.Beta)
	case m.SLO <= 0:
		return fmt.Errorf("model %s: SLO %v, must be above 0", m.Name, m.SLO)
	}
	return nil
}

// String is `name:alpha:beta:slo`, which Parse reads.
func (m Model) String() string {
	text := m.Name
	for _, d := range []mono.Dur{m.Alpha, m.Beta, m.SLO} {
		text += ":" + strconv.FormatFloat(d.Millis(), 'f', -1, 64)
	}
	return text
}
