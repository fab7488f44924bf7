package members

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// The files of a version are the same wherever it was ordered: those that were told first hold as
// long as any backend has them. What lies in backends' own folders is not looked at.

// otherFiles says why an item's files are not those that others have; "": they are.
func (c *Cluster) otherFiles(it *item) string {
	d, m := &it.doc, it.model
	switch {
	case d.Digest == "" || d.Local || d.Digest == m.files:
		return ""
	case m.files == "" || !c.elsewhere(it):
		m.files = d.Digest
		c.stood()
		return ""
	}
	return fmt.Sprintf("its files have digest %s here, and %s elsewhere: mend the source, add these files as another version, or say which are meant (symphony model update %s --source URL --digest HEX)",
		d.Digest, m.files, m.key)
}

// elsewhere reports whether another backend's pool has the model's files.
func (c *Cluster) elsewhere(it *item) bool {
	for _, b := range c.backends {
		for _, s := range b.stocks {
			if s != it.stock && s.files(it.key) == it.model.files {
				return true
			}
		}
	}
	return false
}

// files are the digest of those that were ordered of a model and that the scheduler may use; "":
// there are none, or it is not told.
func (s *stock) files(key string) catalog.Digest {
	if it := s.byKey[key]; it != nil {
		if it.model == nil || it.local {
			return ""
		}
		return it.doc.Digest
	}
	if i, ok := s.list.search(key); ok && s.brought != nil {
		return s.brought[i].Digest
	}
	return ""
}

// take notes the files that a backend has brought with it: they are served, and others are held
// against them.
func (c *Cluster) take(s *stock, ordered []int, files []catalog.Files) {
	l := s.list
	s.brought = l.brought(ordered, files)
	for i := range s.brought {
		if m := l.models[i]; m.files == "" {
			m.files = s.brought[i].Digest
			c.stood()
		}
	}
}
