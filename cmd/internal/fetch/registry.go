package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Registry is where packages come from on this machine: the variable of the environment,
// else what the package manager's command says, else the public one. The command is only
// run where there is one, and for ten seconds at most.
func Registry(variable string, command []string, public string) string {
	if r := os.Getenv(variable); r != "" {
		return strings.TrimSuffix(r, "/")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output(); err == nil {
		if r := strings.TrimSpace(string(out)); strings.HasPrefix(r, "http") {
			return strings.TrimSuffix(r, "/")
		}
	}
	return public
}

// Shown is an address without its password.
func Shown(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return address
}

// Page is a small answer of a registry.
type Page struct {
	URL  *url.URL // after redirections: what its links are relative to
	Type string   // the media type, without parameters
	Body []byte
}

// Ask gets a page of at most max bytes, within a minute.
func Ask(ctx context.Context, address, accept string, max int64) (Page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, silence, errStalled)
	defer cancel()
	r, err := request(ctx, address)
	if err != nil {
		return Page{}, err
	}
	r.Header.Del("Accept-Encoding")
	r.Header.Set("Accept", accept)
	resp, err := answer(ctx, r)
	if err != nil {
		return Page{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Page{}, refused(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, max+1))
	if err != nil {
		return Page{}, errors.Join(fmt.Errorf("the connection to the registry broke: %w", err), context.Cause(ctx))
	}
	if int64(len(body)) > max {
		return Page{}, fmt.Errorf("the registry's page %s has more than %d bytes", resp.Request.URL.Redacted(), max)
	}
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return Page{resp.Request.URL, strings.TrimSpace(media), body}, nil
}
