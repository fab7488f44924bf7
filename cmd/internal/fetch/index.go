package fetch

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"path"
	"regexp"
	"strings"
)

const (
	pageMax = 32 << 20 // bytes of a project's page
	// The simple API has two forms; mirrors may have only the older one.
	accept = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
)

var anchor = regexp.MustCompile(`(?is)<a\s[^>]*?href\s*=\s*["']([^"']+)["']`)

// Find asks the index where a project's file is.
func Find(ctx context.Context, index, project, file string) (string, error) {
	page, err := Ask(ctx, index+"/"+project+"/", accept, pageMax)
	if err != nil {
		return "", err
	}
	links, err := linksOf(page)
	if err != nil {
		return "", fmt.Errorf("the index's page %s: %w", page.URL.Redacted(), err)
	}
	for _, l := range links {
		u, err := page.URL.Parse(l)
		if err != nil || path.Base(u.Path) != file {
			continue
		}
		u.Fragment = "" // the checksum that the index knows; ours is pinned
		if u.User == nil && u.Host == page.URL.Host {
			u.User = page.URL.User
		}
		return u.String(), nil
	}
	return "", fmt.Errorf("the index's page %s has no %s among its %d files", page.URL.Redacted(), file, len(links))
}

// linksOf are the addresses of a project's files, as its page has them.
func linksOf(p Page) ([]string, error) {
	if strings.HasSuffix(p.Type, "json") {
		var list struct {
			Files []struct {
				URL string `json:"url"`
			} `json:"files"`
		}
		if err := json.Unmarshal(p.Body, &list); err != nil {
			return nil, err
		}
		var out []string
		for _, f := range list.Files {
			out = append(out, f.URL)
		}
		return out, nil
	}
	var out []string
	for _, m := range anchor.FindAllSubmatch(p.Body, -1) {
		out = append(out, html.UnescapeString(string(m[1])))
	}
	return out, nil
}
