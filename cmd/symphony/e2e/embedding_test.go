package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// embedding is a model whose answers tell which files they were made of: y are rows of the weights, which may lie in
// a file of their own, and z is of the graph's file. All numbers of a generation are its number, so an answer with two
// numbers in it is a mixture of two generations.
type embedding struct {
	generation int
	outside    string // file of the weights, relative to the graph's; "": they are in it
}

const (
	embeddingRows = 2048
	embeddingCols = 64
)

// embeddingConfig is the models' config.yaml.
func embeddingConfig(maxBatch int) string {
	return fmt.Sprintf("platform: onnxruntime\nslo: 5s\nmax_batch: %d\ninputs: [{name: i, type: INT64, shape: []}]\n"+
		"outputs: [{name: y, type: FP32, shape: [%d]}, {name: z, type: FP32, shape: [1]}]\n", maxBatch, embeddingCols)
}

// message is a protobuf message as it grows.
type message []byte

func (m message) bytes(n protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, n, protowire.BytesType), b)
}

func (m message) text(n protowire.Number, s string) message { return m.bytes(n, []byte(s)) }

func (m message) number(n protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, n, protowire.VarintType), v)
}

func repeated(v float32, n int) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

// files are the model's, by path below its version's folder; the graph's is the last one.
func (e embedding) files() (paths []string, data map[string][]byte) {
	const float, int64s = 1, 7
	data = map[string][]byte{}
	weights := repeated(float32(e.generation), embeddingRows*embeddingCols)
	w := message(nil).number(1, embeddingRows).number(1, embeddingCols).number(2, float).text(8, "W")
	if e.outside == "" {
		w = w.bytes(9, weights)
	} else {
		paths, data[e.outside] = append(paths, e.outside), weights
		w = w.bytes(13, message(nil).text(1, "location").text(2, e.outside)).number(14, 1)
	}
	k := message(nil).number(1, embeddingRows).number(1, 1).number(2, float).text(8, "K").bytes(9, repeated(float32(e.generation), embeddingRows))
	value := func(name string, kind uint64, cols uint64) message {
		shape := message(nil).bytes(1, message(nil).text(2, "b"))
		if cols > 0 {
			shape = shape.bytes(1, message(nil).number(1, cols))
		}
		return message(nil).text(1, name).bytes(2, message(nil).bytes(1, message(nil).number(1, kind).bytes(2, shape)))
	}
	node := func(table, out string) message {
		return message(nil).text(1, table).text(1, "i").text(2, out).text(3, out).text(4, "Gather")
	}
	graph := message(nil).bytes(1, node("W", "y")).bytes(1, node("K", "z")).text(2, "g").bytes(5, w).bytes(5, k).
		bytes(11, value("i", int64s, 0)).bytes(12, value("y", float, embeddingCols)).bytes(12, value("z", float, 1))
	data["model.onnx"] = message(nil).number(1, 8).bytes(8, message(nil).number(2, 17)).bytes(7, graph)
	return append(paths, "model.onnx"), data
}

// modelReader asks one model again and again, and holds each answer against what it may be.
type modelReader struct {
	name, http string
	client     *http.Client

	mu     sync.Mutex
	gone   bool      // it may be: it was taken away
	found  time.Time // until when it may be, as the server finds that it is back
	made   int       // the last generation of which a file was written
	seen   int       // the highest generation that answered
	served int
	told   map[string]int // other answers
	wrong  []string       // answers that may not be
}

func newModelReader(http_, name string) *modelReader {
	return &modelReader{name: name, http: http_, client: &http.Client{Timeout: 30 * time.Second}, told: map[string]int{}}
}

func (w *modelReader) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *modelReader) state() (seen, served int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen, w.served
}

// run asks until stop is closed.
func (w *modelReader) run(stop <-chan struct{}, first int) {
	for k := first; ; k = (k*31 + 17) % embeddingRows {
		select {
		case <-stop:
			return
		case <-time.After(4 * time.Millisecond):
		}
		w.ask(k)
	}
}

// ask sends one request of two items.
func (w *modelReader) ask(k int) {
	w.mu.Lock()
	before, gone := w.seen, w.gone || time.Now().Before(w.found)
	w.mu.Unlock()
	body := fmt.Sprintf(`{"inputs":[{"name":"i","datatype":"INT64","shape":[2],"data":[%d,%d]}]}`, k, embeddingRows-1)
	resp, err := w.client.Post("http://"+w.http+"/v2/models/"+w.name+"/infer", "application/json", strings.NewReader(body))
	if err != nil {
		w.complain("no answer: %v", err)
		return
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		w.complain("an answer that ends early: %v", err)
		return
	}
	reason := resp.Header.Get("X-Symphony-Reason")
	switch {
	case resp.StatusCode == 200:
		w.judge(text, before)
	case resp.StatusCode == 503 && reason != "" && strings.Contains(string(text), `"error"`):
		w.set(func() { w.told[reason]++ })
	case resp.StatusCode == 404:
		w.mu.Lock()
		may := gone || w.gone
		w.told["404"]++
		w.mu.Unlock()
		if !may {
			w.complain("404 %.200s, and it is there", text)
		}
	default:
		w.complain("%d %s %.200s", resp.StatusCode, reason, text)
	}
}

// judge looks at the numbers of an answer: all of one generation, no older than what had been answered when the
// request was sent, and one that was made.
func (w *modelReader) judge(text []byte, before int) {
	var doc struct {
		Outputs []struct{ Data []float64 }
	}
	if err := json.Unmarshal(text, &doc); err != nil || len(doc.Outputs) != 2 || len(doc.Outputs[0].Data) != 2*embeddingCols || len(doc.Outputs[1].Data) != 2 {
		w.complain("an answer of another shape: %.200s", text)
		return
	}
	generation := doc.Outputs[0].Data[0]
	for _, o := range doc.Outputs {
		for _, v := range o.Data {
			if v != generation {
				w.complain("a mixture: %v and %v in one answer", generation, v)
				return
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served++
	switch g := int(generation); {
	case float64(g) != generation || g < 1 || g > w.made:
		w.add("generation %v, which was not made: %d is the last", generation, w.made)
	case g < before:
		w.add("generation %d after %d had answered", g, before)
	default:
		w.seen = max(w.seen, g)
	}
}

func (w *modelReader) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(format, args...)
}

// add keeps the first few. Caller holds mu.
func (w *modelReader) add(format string, args ...any) {
	if len(w.wrong) < 20 {
		w.wrong = append(w.wrong, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}
