package backend

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// documents are a pool's model list and its models' labels, by their digests: made once,
// sent when the scheduler asks.
type documents struct {
	models map[catalog.Digest][]byte
	labels map[catalog.Digest][]string // encoded when asked for: most never are
}

func newDocuments(specs []catalog.ModelSpec) (documents, catalog.Digest, error) {
	list, d, err := catalog.EncodeModels(specs)
	if err == nil && len(list) > transport.BackendDocMax {
		err = fmt.Errorf("%d models take %d bytes to describe, at most %d are taken: spread them over several pools", len(specs), len(list), transport.BackendDocMax)
	}
	if err != nil {
		return documents{}, "", err
	}
	docs := documents{models: map[catalog.Digest][]byte{d: list}, labels: map[catalog.Digest][]string{}}
	for i := range specs {
		if labels := specs[i].Labels; len(labels) > 0 {
			_, id, err := catalog.EncodeLabels(labels)
			if err != nil {
				return documents{}, "", err
			}
			docs.labels[id] = labels
		}
	}
	return docs, d, nil
}

// checkLabels says why others would not take a model's labels.
func checkLabels(m *catalog.ModelSpec) error {
	doc, _, err := catalog.EncodeLabels(m.Labels)
	switch {
	case err != nil:
		return err
	case len(doc) > transport.BackendDocMax:
		return fmt.Errorf("its %d labels take %d bytes to tell, at most %d are taken: shorten them", len(m.Labels), len(doc), transport.BackendDocMax)
	case len(m.Labels) > 0:
		if _, err := catalog.DecodeLabels(doc); err != nil {
			return fmt.Errorf("%w: shorten them, or leave some out", err)
		}
	}
	return nil
}

// introduction is what a scheduler is told of the pool on a new link: the list of what all
// devices have. What does not go into a document is told after it.
func (p *pool) introduction(u *uplink, l transport.Link) catalog.Pool {
	doc := p.doc
	specs := p.stock.introduce(u, l, &doc)
	for n := len(specs); ; n /= 2 {
		docs, digest, err := newDocuments(specs[:n])
		if err != nil && n > 0 {
			continue
		}
		if n < len(specs) {
			p.stock.unlist(u, n)
			doc.Ordered = slices.DeleteFunc(doc.Ordered, func(i int) bool { return i >= n })
			doc.Brought = doc.Brought[:len(doc.Ordered)]
		}
		p.documents[u.index].Store(&docs)
		doc.Models = digest
		return doc
	}
}

// labels are those of a digest, of a model that came later; nil: there are none.
func (p *pool) labels(id catalog.Digest) []string {
	if all := p.served.Load(); all != nil && id != "" {
		for _, spec := range *all {
			if spec != nil && spec.LabelsID == id {
				return spec.Labels
			}
		}
	}
	return nil
}

// onWant sends a document that the scheduler asks for.
func (b *Backend) onWant(u *uplink, l transport.Link, payload []byte) error {
	w, err := catalog.DecodeWant(payload)
	if err != nil {
		return err
	}
	for _, p := range b.pools {
		if docs := p.documents[u.index].Load(); docs != nil {
			if doc, ok := docs.models[w.Models]; ok {
				return l.SendPayload((&wire.Doc{Type: wire.DocModels}).Append(nil, len(doc)), doc, nil)
			}
			if labels, ok := docs.labels[w.Labels]; ok {
				return sendLabels(l, labels)
			}
		}
		if labels := p.labels(w.Labels); labels != nil {
			return sendLabels(l, labels)
		}
	}
	return nil // it asks for what another life of this backend had
}

// sendLabels sends them if the link takes them now: the scheduler asks again, and reports
// must not end for want of room.
func sendLabels(l transport.Link, labels []string) error {
	doc, _, err := catalog.EncodeLabels(labels)
	if err == nil {
		err = l.SendPayload((&wire.Doc{Type: wire.DocLabels}).Append(nil, len(doc)), doc, nil)
	}
	if errors.Is(err, transport.ErrFull) {
		return nil
	}
	return err
}
