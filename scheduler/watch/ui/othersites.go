package ui

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

var errOtherSite = errors.New("a page of another site asked for this, and gets nothing: open the address yourself, by typing or pasting it")

// RefuseOtherSites keeps other sites' pages in a browser from what next serves, which asks nobody who he
// is. address is where it was told to listen: HOST:PORT.
//
// A page of a name that its owner has turned to this address (DNS rebinding) is of the same origin for a
// browser, and only the Host header tells. So that is an IP address, localhost, or the name in address.
// A page of another origin may make requests without reading answers, and a browser says so in Sec-Fetch-Site.
// Refusals have status 403, and say what to do.
func RefuseOtherSites(next http.Handler, address string) http.Handler {
	name, _, _ := net.SplitHostPort(address) // "": there is no name
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			// net/http takes chunks beside a Content-Length, and hides the length: what follows on the
			// connection may be another's for a proxy before it.
			w.Header().Set("Connection", "close")
		}
		switch host := (&url.URL{Host: r.Host}).Hostname(); {
		case !known(host, name):
			refuse(w, http.StatusForbidden, fmt.Errorf("the host %q is not known here: use the IP address or localhost, or have this process listen on that name", host))
		case otherSite(r.Header.Get("Sec-Fetch-Site")):
			refuse(w, http.StatusForbidden, errOtherSite)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// known reports whether a host is one that no stranger can have turned here.
func known(host, name string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost") || name != "" && strings.EqualFold(host, name)
}

// otherSite reads Sec-Fetch-Site. None: a person typed the address; empty: it is no browser, or an old one.
func otherSite(from string) bool { return from != "" && from != "none" && from != "same-origin" }
