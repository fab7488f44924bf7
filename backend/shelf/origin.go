package shelf

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// originsFile says what was fetched last from where, for orders that name no digest: a line
// "<digest> <origin>" each, the last of an origin holds. It is made anew at the start.
const originsFile = "origins"

// origin names an address and a version. It is a hash: an address may have secrets in it.
func origin(from *catalog.Source) string {
	sum := sha256.Sum256([]byte(from.URL + "\n" + from.Version))
	return hex.EncodeToString(sum[:])
}

// readOrigins takes in what the lives before have fetched and is still there. A line that a
// crash has cut is none.
func (s *Shelf) readOrigins() error {
	at := filepath.Join(s.c.Dir, originsFile)
	text, err := os.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var kept []byte
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		digest, from, _ := strings.Cut(lines.Text(), " ")
		if s.items[catalog.Digest(digest)] != nil && len(from) == 2*sha256.Size {
			s.origins[from] = catalog.Digest(digest)
		}
	}
	for from, digest := range s.origins {
		kept = fmt.Appendf(kept, "%s %s\n", digest, from)
	}
	if err := os.WriteFile(at+".new", kept, 0o600); err != nil {
		return err
	}
	return os.Rename(at+".new", at)
}

// cameFrom notes what was fetched. That it cannot be noted is no reason not to serve.
func (s *Shelf) cameFrom(from *catalog.Source, digest catalog.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := origin(from)
	if s.origins[o] == digest {
		return
	}
	s.origins[o] = digest
	f, err := os.OpenFile(filepath.Join(s.c.Dir, originsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %s\n", digest, o)
		err = firstOf(err, f.Close())
	}
	if err != nil {
		s.c.Warn(fmt.Errorf("model cache: %w", err))
	}
}

// last lends what was fetched from there before; why is why it cannot be fetched now. ok is
// false where nothing of it is kept, or where a digest was ordered: then only that one will do.
func (s *Shelf) last(from *catalog.Source, why error) (dir string, release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[s.origins[origin(from)]]
	if it == nil || from.Digest != "" {
		return "", nil, false
	}
	s.c.Warn(fmt.Errorf("model %s: what was fetched before is served (digest %s), since it cannot be fetched now: %w", from.Key(), it.digest, why))
	dir, release, _ = s.lendLocked(it)
	return dir, release, true
}
