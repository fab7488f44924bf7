package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Digest names a document by its bytes: whoever has heard of the digest need not be
// sent the document again. It is 32 hexadecimal digits; empty: there is none.
type Digest string

// DigestOf is the digest of a document's bytes.
func DigestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest(hex.EncodeToString(sum[:16]))
}

// Valid reports whether it can be a digest at all.
func (d Digest) Valid() bool {
	b, err := hex.DecodeString(string(d))
	return err == nil && len(b) == 16
}

// EncodeModels is a model list as it travels, with its digest. Labels are left out:
// LabelsID names them.
func EncodeModels(models []ModelSpec) ([]byte, Digest, error) {
	list := ModelList{Models: make([]ModelSpec, len(models))}
	for i := range models {
		list.Models[i] = models[i]
		if len(models[i].Labels) > 0 {
			_, id, err := EncodeLabels(models[i].Labels)
			if err != nil {
				return nil, "", err
			}
			list.Models[i].LabelsID = id
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return nil, "", fmt.Errorf("model list: %w", err)
	}
	return b, DigestOf(b), nil
}

// EncodeLabels are labels as they travel, with their digest.
func EncodeLabels(labels []string) ([]byte, Digest, error) {
	b, err := json.Marshal(labels)
	if err != nil {
		return nil, "", fmt.Errorf("labels: %w", err)
	}
	return b, DigestOf(b), nil
}
