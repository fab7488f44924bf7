package results

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	lineOne = "{\"key\":1,\"result\":10}\n"
	lineTwo = "{\"key\":2,\"result\":{\"rate\":20}}\n"
)

// opened writes a file of results and opens it; now is what it holds then.
func opened(t *testing.T, text string, fresh bool) (st *Store, notes, now string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if st, err = Open(path, "a test", fresh, &said); err == nil {
		t.Cleanup(st.Close)
	}
	left, _ := os.ReadFile(path)
	return st, said.String(), string(left), err
}

// TestStoreMendsTheLastLine: what a process that was killed left half is cut
// off, and told; the results before it count.
func TestStoreMendsTheLastLine(t *testing.T) {
	for _, c := range []struct {
		text, now string
		results   int
		note      bool
	}{
		{"", "", 0, false},
		{lineOne + lineTwo, lineOne + lineTwo, 2, false},
		{lineOne + lineTwo[:len(lineTwo)-1], lineOne + lineTwo, 2, false},
		{lineOne + lineTwo[:len(lineTwo)-4], lineOne, 1, true},
		{lineOne + "{\"k", lineOne, 1, true},
		{lineTwo[:12], "", 0, true},
	} {
		st, notes, now, err := opened(t, c.text, false)
		if err != nil || now != c.now || len(st.done) != c.results || strings.Contains(notes, "results.jsonl: the last line") != c.note {
			t.Errorf("%q: %v, notes %q, now %q", c.text, err, notes, now)
			continue
		}
		if err := st.Add("3", []byte("30")); err != nil {
			t.Fatal(err)
		}
		again, err := Open(st.path, "a test", false, nil)
		if err != nil || len(again.done) != c.results+1 {
			t.Errorf("%q: %v after one more result", c.text, err)
		} else {
			again.Close()
		}
	}
}

// TestStoreRefusesOtherLines, by their number, also with --fresh; the file stays
// as it is.
func TestStoreRefusesOtherLines(t *testing.T) {
	for text, want := range map[string]string{
		"garbage\n":                        "results.jsonl:1 is no result",
		"garbage\n" + lineOne:              "results.jsonl:1 is no result",
		lineOne + "garbage\n" + lineTwo:    "results.jsonl:2 is no result",
		lineOne + "\n" + lineTwo:           "results.jsonl:2 is no result",
		lineOne + lineTwo[:20] + "\n":      "results.jsonl:2 is no result",
		lineOne + "{\"key\":3}\n":          "the result is missing",
		lineOne + "{\"result\":3}\n":       "the result is missing",
		"no end":                           "results.jsonl:1 is no result",
		"{":                                "results.jsonl:1 is no result",
		lineOne + "no end":                 "results.jsonl:2 is no result",
		lineOne + "{}\n" + lineTwo[:20]:    "results.jsonl:2 is no result",
		lineOne + lineTwo[:20] + lineOne:   "results.jsonl:2 is no result",
		lineOne + "[1, 2]\n" + lineTwo[:3]: "delete that line",
	} {
		for _, fresh := range []bool{false, true} {
			if _, _, now, err := opened(t, text, fresh); err == nil || !strings.Contains(err.Error(), want) || now != text {
				t.Errorf("%q: error %v, want one with %q; now %q", text, err, want, now)
			}
		}
	}
}
