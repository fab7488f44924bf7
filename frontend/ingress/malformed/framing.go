package malformed

import "strings"

// framing cases leave it open where the request ends (RFC 9112, sections 5, 6 and 7). Each has a second
// request in the same bytes, which must get no answer.
func (t Target) framing() []Case {
	const (
		length = "Content-Length: 4\r\n"
		coded  = "Transfer-Encoding: chunked\r\n"
		chunks = "4\r\nabcd\r\n0\r\n\r\n"
		next   = "GET /v2/health/live HTTP/1.1\r\nHost: symphony\r\n\r\n"
	)
	var out []Case
	add := func(name string, status int, text, headers, body string, change ...string) {
		request := "POST " + t.path() + " HTTP/1.1\r\nHost: symphony\r\n" + headers + "\r\n" + body
		request = strings.NewReplacer(change...).Replace(request)
		out = append(out, Case{Name: "framing: " + name, Status: status, Text: text, Ends: true, Write: raw([]byte(request + next))})
	}
	const both, coding, bad, body = "both Content-Length and Transfer-Encoding", "Transfer-Encoding must be chunked", "malformed HTTP request", "the body cannot be read"
	add("a length, then chunked", 400, both, length+coded, chunks)
	add("chunked, then a length", 400, both, coded+length, chunks)
	add("a length of 0, and chunked", 400, both, "Content-Length: 0\r\n"+coded, chunks)
	add("a length and identity", 400, both, length+"Transfer-Encoding: identity\r\n", "abcd")
	add("names in other letters", 400, both, "content-LENGTH: 4\r\ntransfer-ENCODING: Chunked\r\n", chunks)
	add("identity", 400, coding, "Transfer-Encoding: identity\r\n", "")
	for _, value := range []string{"gzip", "gzip, chunked", "chunked, identity", "chunked, chunked", "xchunked", "\"chunked\"", "chunked;q=1", "", "\x0bchunked"} {
		add("coding "+value, 400, bad, "Transfer-Encoding: "+value+"\r\n", chunks)
	}
	add("chunked twice", 400, bad, coded+coded, chunks)
	add("chunked and identity", 400, bad, coded+"Transfer-Encoding: identity\r\n", chunks)
	add("HTTP/1.0 and chunked", 400, "HTTP/1.0 has no Transfer-Encoding", "Connection: keep-alive\r\n"+coded, chunks, "HTTP/1.1", "HTTP/1.0")
	for _, value := range []string{"+4", "-4", "4, 4", "4,5", "0x4", "4_0", "4.0", "", "18446744073709551620"} {
		add("length "+value, 400, bad, "Content-Length: "+value+"\r\n", "abcd")
	}
	add("two lengths that agree", 400, bad, length+length, "abcd")
	add("a space before the colon", 400, bad, "Content-Length : 4\r\n", "abcd")
	add("a space before the colon of the coding", 400, bad, "Transfer-Encoding : chunked\r\n", chunks)
	add("a folded coding", 400, "begins with a space", "Transfer-Encoding:\r\n chunked\r\n", chunks)
	add("a folded length", 400, "begins with a space", "Content-Length:\r\n\t4\r\n", "abcd")
	add("a coding in a folded line", 400, "begins with a space", "X-A: b\r\n\tTransfer-Encoding: chunked\r\n"+length, "abcd")
	add("a folded first line", 400, bad, length, "abcd", "Host", " Host")
	add("a line without CR", 400, "does not end with CR LF", "X-A: b\n"+length, "abcd")
	add("a length without CR", 400, "does not end with CR LF", "Content-Length: 4\nX-A: b\r\n", "abcd")
	add("no CR at all", 400, "does not end with CR LF", length, "abcd", "\r\n", "\n")
	add("CR in a value", 400, bad, "X-A: b\rContent-Length: 9\r\n"+length, "abcd")
	add("NUL in a value", 400, bad, "X-A: b\x00\r\n"+length, "abcd")
	add("a line without a colon", 400, bad, "garbage\r\n"+length, "abcd")
	add("no name", 400, bad, ": b\r\n"+length, "abcd")
	add("a bracket in a name", 400, bad, "Con(tent: b\r\n"+length, "abcd")
	add("two hosts", 400, bad, "Host: other\r\n"+length, "abcd")
	add("a chunk extension with LF", 400, body, coded, "4;a\nb\r\nabcd\r\n0\r\n\r\n")
	for _, size := range []string{"+4", "-4", "0x4", " 4", "", "10000000000000004", "ffffffffffffffff", "7fffffffffffffff0", "4\n"} {
		add("chunk size "+size, 400, body, coded, size+"\r\nabcd\r\n0\r\n\r\n")
	}
	add("a chunk with LF alone", 400, body, coded, "4\nabcd\n0\n\n")
	add("a chunk's data with LF alone", 400, body, coded, "4\r\nabcd\n0\r\n\r\n")
	add("a length as trailer", 400, body, coded, "4\r\nabcd\r\n0\r\nContent-Length: 4\r\n\r\n")
	add("a coding as trailer", 400, body, coded, "4\r\nabcd\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n")
	add("a trailer without a colon", 400, body, coded, "4\r\nabcd\r\n0\r\nX y\r\n\r\n")
	add("two content encodings", 400, "more than one Content-Encoding", length+"Content-Encoding: gzip\r\nContent-Encoding: identity\r\n", "abcd")
	add("two lengths of the JSON", 400, "more than one Inference-Header-Content-Length", length+"Inference-Header-Content-Length: 1\r\nInference-Header-Content-Length: 2\r\n", "abcd")
	add("a large body to no path", 413, "above", "Content-Length: 1073741824\r\n", "", t.path(), "/nothing")
	add("both to no path", 400, both, length+coded, chunks, t.path(), "/nothing")
	return out
}
