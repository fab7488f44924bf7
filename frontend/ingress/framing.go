package ingress

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// Where a request ends must be beyond doubt: a proxy before this server that reads it otherwise would
// take the rest of one client's bytes for another's request (RFC 9112, sections 6.1 and 11.2). fasthttp
// refuses most of what is ambiguous. These it takes, and they are refused here, with 400 and the
// connection's end:
//
//	Content-Length beside Transfer-Encoding        fasthttp goes by the chunks
//	Transfer-Encoding: identity, or in HTTP/1.0    fasthttp passes over the first, and reads chunks for the second
//	a line that begins with a space (obs-fold)     fasthttp joins it with the one before
//	a line that ends without a carriage return     fasthttp takes it for a line
//	two Content-Encoding, two lengths of the JSON  fasthttp gives the first
//
// Chunks themselves fasthttp reads more loosely than others do (spaces after a size, extensions of any
// length): the connection of a request in chunks ends with its answer, and what follows is not read.

// framingText is what is wrong with how a request tells its end; empty: nothing. closes: the connection
// ends after the answer: the request came in chunks, or asks for that in a spelling that fasthttp does
// not know.
func framingText(h *fasthttp.RequestHeader) (text string, closes bool) {
	var length, coding, encoding, header int
	for raw := h.RawHeaders(); len(raw) > 0; {
		end := bytes.IndexByte(raw, '\n')
		if end < 1 || raw[end-1] != '\r' {
			return "a line of its headers does not end with CR LF", true
		}
		line := raw[:end-1]
		raw = raw[end+1:]
		if len(line) == 0 {
			break
		}
		switch line[0] | 0x20 { // no letter, or another one, for nearly all
		case ' ', '\t' | 0x20:
			return "a line of its headers begins with a space: send the header in one line", true
		case 'c':
			length += named(line, "Content-Length")
			encoding += named(line, "Content-Encoding")
			if named(line, "Connection") > 0 && string(line) != "Connection: keep-alive" {
				closes = closes || hasToken(line[len("connection:"):], "close")
			}
		case 't':
			coding += named(line, "Transfer-Encoding")
		case 'i':
			header += named(line, headerLength)
		}
	}
	switch {
	case coding > 0 && length > 0:
		text = "it has both Content-Length and Transfer-Encoding: send one of them"
	case coding > 0 && h.ContentLength() != -1:
		text = "Transfer-Encoding must be chunked"
	case coding > 0 && !h.IsHTTP11():
		text = "HTTP/1.0 has no Transfer-Encoding: send Content-Length"
	case encoding > 1:
		text = "it has more than one Content-Encoding"
	case header > 1:
		text = "it has more than one " + headerLength
	}
	return text, closes || coding > 0
}

// named is 1 if a line is that of the header, whatever the case of its letters. Nearly all have the usual
// one, which is compared first.
func named(line []byte, name string) int {
	if len(line) > len(name) && line[len(name)] == ':' && (string(line[:len(name)]) == name || bytes.EqualFold(line[:len(name)], []byte(name))) {
		return 1
	}
	return 0
}

// hasToken reports whether a list between commas has a word.
func hasToken(list []byte, word string) bool {
	for len(list) > 0 {
		one, rest, _ := bytes.Cut(list, []byte{','})
		if bytes.EqualFold(bytes.TrimSpace(one), []byte(word)) {
			return true
		}
		list = rest
	}
	return false
}

// refusedMark is a header of our own making on requests that are refused for their headers alone: its
// value is the text. No client can send it: NUL is no letter of a header's name.
const refusedMark = "\x00"

// tooLargeText marks a request whose announced body is too large.
const tooLargeText = "too large"

// headerReceived runs before fasthttp touches the body. What is refused for its headers is marked, and
// its connection ends after the answer, whichever that is: none of what follows is read.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	text, closes := framingText(h)
	n := h.ContentLength()
	if text == "" && int64(n) > s.cfg.BodyMax {
		text = tooLargeText
	}
	if closes || text != "" {
		h.SetConnectionClose()
	}
	if text != "" {
		h.SetContentLength(0)
		h.Del("Expect")
		h.SetCanonical([]byte(refusedMark), []byte(text))
	}
	if n == 0 || n == -2 || text != "" {
		return fasthttp.RequestConfig{}
	}
	return fasthttp.RequestConfig{ReadTimeout: s.paceWindow()}
}

// refusedFor is the answer to a request that headerReceived has marked; nil: it is not.
func (s *Server) refusedFor(x *exchange) error {
	mark := x.ctx.Request.Header.Peek(refusedMark)
	switch {
	case mark == nil:
		return nil
	case string(mark) == tooLargeText:
		return s.tooLarge()
	}
	r := badRequest("malformed HTTP request: %s", mark)
	r.close = true
	return r
}
