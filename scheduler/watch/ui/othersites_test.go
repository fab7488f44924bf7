package ui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Another site's page gets nothing, whether its name leads here or its requests do.
func TestRefuseOtherSites(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, c := range []struct {
		address, host, site string
		refused             string // what the refusal says; "": it is served
	}{
		{"127.0.0.1:8003", "127.0.0.1:8003", "", ""},
		{"127.0.0.1:8003", "127.0.0.1:8003", "none", ""},
		{"127.0.0.1:8003", "localhost:8003", "same-origin", ""},
		{"127.0.0.1:8003", "LOCALHOST", "", ""},
		{"0.0.0.0:8003", "[::1]:8003", "", ""},
		{"0.0.0.0:8003", "[fe80::1%25eth0]:8003", "", ""},
		{":8003", "10.1.2.3:1234", "", ""},
		{"gpu1.example:8003", "GPU1.example:8003", "", ""},
		{"127.0.0.1:8003", "gpu1.example:8003", "", `"gpu1.example" is not known`},
		{"gpu1.example:8003", "evil.gpu1.example:8003", "", "not known"},
		{"127.0.0.1:8003", "127.0.0.1.evil.example:8003", "same-origin", "not known"},
		{"127.0.0.1:8003", "localhost.evil.example", "none", "not known"},
		{":8003", "", "", "not known"},
		{"", "[", "", "not known"},
		{"127.0.0.1:8003", "127.0.0.1:8003", "cross-site", "another site"},
		{"127.0.0.1:8003", "localhost:8003", "same-site", "another site"},
	} {
		r := httptest.NewRequest("GET", "/ui/events", nil)
		r.Host = c.host
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		RefuseOtherSites(served, c.address).ServeHTTP(w, r)
		var doc struct{ Error string }
		_ = json.Unmarshal(w.Body.Bytes(), &doc)
		if ok := w.Code == http.StatusNoContent && c.refused == "" || w.Code == http.StatusForbidden && c.refused != "" && strings.Contains(doc.Error, c.refused); !ok {
			t.Errorf("%+v: %d, %s", c, w.Code, w.Body)
		}
	}
}
