package zoo

import (
	_ "embed" // the table
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

//go:embed zoo_memory.csv
var memory string

// Memory is what a model takes of a GPU.
type Memory struct {
	Static  int64 // bytes of its weights, 4 for each parameter
	Dynamic int64 // bytes of a batch that runs
}

// MemoryOf tells the memory of a model of the zoo. The paper prints no sizes. Parameters are those of the Keras
// applications that the paper's models are (zoo_memory.csv; BERT is BERT base, SSDMobilenet the one for COCO, rounded). What a
// running batch takes nobody published: 100 MB and 50 MB for each millisecond of alpha, at most 1.5 GB, stands for
// it, since a model that computes more for an item keeps more for it. ok: the zoo has the model.
func MemoryOf(m Model) (_ Memory, ok bool) {
	for line := range strings.Lines(memory) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), ",")
		if name != m.Name || name == "model" {
			continue
		}
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("zoo_memory.csv: %v", err)) // the file is part of the program: a bug
		}
		dynamic := 100 + 50*m.Alpha/mono.Millisecond
		return Memory{Static: 4 * n, Dynamic: min(1500, int64(dynamic)) * 1e6}, true
	}
	return Memory{}, false
}
