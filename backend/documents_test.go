package backend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const labelledModel = `platform: emulated
device_type: e
slo: 100ms
max_batch: 4
inputs: [{name: x, type: FP32, shape: [4]}]
outputs: [{name: y, type: FP32, shape: [2]}]
labels: [cat, dog]
profile: {alpha_ms: 1, beta_ms: 2}
`

// The scheduler gets the model list and the labels by the digests that it was told, and
// what this backend does not have it does not get; the link stays.
func TestDocumentsByDigest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	if err := os.MkdirAll(filepath.Join(dir, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(labelledModel), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t)
	defer c.close()
	b := c.backend(func(cfg *Config) {
		cfg.Repository = filepath.Dir(dir)
		cfg.Pools[0].Zoo = nil
	})
	defer b.Close()
	first := c.control()
	for _, unknown := range []catalog.Want{{}, {Models: catalog.DigestOf(nil)}, {Labels: catalog.DigestOf(nil)}, {Models: "no digest"}} {
		c.tell(wire.DocWant, unknown)
	}
	list := c.info.Pools[0].Models
	c.tell(wire.DocWant, catalog.Want{Models: list})
	c.wait("the model list", func() bool { return len(c.docs) > 0 })
	if d := c.docs[0]; len(c.docs) != 1 || d.kind != wire.DocModels || catalog.DigestOf(d.payload) != list {
		t.Fatalf("%d documents, the first is %d: %s", len(c.docs), d.kind, d.payload)
	}
	var models catalog.ModelList
	if err := json.Unmarshal(c.docs[0].payload, &models); err != nil || len(models.Models) != 1 || !models.Models[0].LabelsID.Valid() {
		t.Fatalf("%+v, %v", models, err)
	}
	c.tell(wire.DocWant, catalog.Want{Labels: models.Models[0].LabelsID})
	c.wait("the labels", func() bool { return len(c.docs) == 2 })
	var labels []string
	d := c.docs[1]
	if err := json.Unmarshal(d.payload, &labels); err != nil || d.kind != wire.DocLabels || !slices.Equal(labels, []string{"cat", "dog"}) ||
		catalog.DigestOf(d.payload) != models.Models[0].LabelsID {
		t.Errorf("%d: %s, %v", d.kind, d.payload, err)
	}
	if c.control() != first {
		t.Error("a question for what is not there ended the link")
	}
}

// More models than the scheduler takes at once are refused at the start, with what to do.
func TestModelListTooLarge(t *testing.T) {
	specs := make([]catalog.ModelSpec, 2)
	for i := range specs {
		specs[i] = catalog.ModelSpec{Name: fmt.Sprint("m", i), Version: strings.Repeat("v", transport.BackendDocMax/2), SLO: mono.Second}
	}
	if _, _, err := newDocuments(specs); err == nil || !strings.Contains(err.Error(), "2 models take") || !strings.Contains(err.Error(), "spread them over several pools") {
		t.Errorf("%v", err)
	}
	if _, d, err := newDocuments(specs[:1]); err != nil || !d.Valid() {
		t.Errorf("half of them: %v", err)
	}
}

// fullLink takes nothing.
type fullLink struct {
	transport.Link
	cut error
}

func (l *fullLink) SendPayload([]byte, []byte, func()) error { return transport.ErrFull }
func (l *fullLink) Close(cause error)                        { l.cut = cause }

// Labels never cut a full link: its reports must not end for them.
func TestLabelsOverAFullLink(t *testing.T) {
	docs, _, err := newDocuments([]catalog.ModelSpec{{Name: "m", Version: "1", Labels: []string{"cat"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := catalog.EncodeLabels([]string{"cat"})
	want, err := json.Marshal(catalog.Want{Labels: id})
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{documents: make([]atomic.Pointer[documents], 1)}
	p.documents[0].Store(&docs)
	b, l := &Backend{pools: []*pool{p}}, &fullLink{}
	if err := b.onWant(&uplink{}, l, want); err != nil || l.cut != nil {
		t.Errorf("%v; cut: %v", err, l.cut)
	}
}

// A model whose labels nobody would take is not served, with a reason; the others are.
func TestLabelsThatCannotBeTold(t *testing.T) {
	many := make([]string, 1<<18+1)
	for what, c := range map[string]struct {
		labels []string
		words  string
	}{
		"none":        {nil, ""},
		"some":        {[]string{"cat", "dog", strings.Repeat("x", 4096)}, ""},
		"a long one":  {[]string{"cat", strings.Repeat("x", 4097)}, "4097"},
		"many":        {many, "262144"},
		"large":       {slices.Repeat([]string{strings.Repeat("x", 4000)}, 5000), "shorten them"},
		"escapes too": {[]string{strings.Repeat("\x00", 1000)}, "6000"},
	} {
		err := checkLabels(&catalog.ModelSpec{Name: "m", Version: "1", Labels: c.labels})
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", what, err)
		}
	}
	dir := t.TempDir()
	for name, label := range map[string]string{"good": "dog", "long": strings.Repeat("x", 5000)} {
		if err := os.MkdirAll(filepath.Join(dir, name, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "config.yaml"), []byte(strings.Replace(labelledModel, "dog", label, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log := &refusalLog{}
	c := newCluster(t)
	defer c.close()
	b := c.backend(func(cfg *Config) {
		cfg.Repository, cfg.Logger = dir, zerolog.New(log)
		cfg.Pools[0].Zoo = nil
	})
	defer b.Close()
	if p := b.pools[0]; len(p.specs) != 1 || p.specs[0].Name != "good" {
		t.Errorf("it serves %+v", p.specs)
	}
	if n, all := log.of("not served"); n != 1 || !strings.Contains(all, "long") {
		t.Errorf("the log has %s", all)
	}
}
