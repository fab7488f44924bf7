package httpbench

import (
	"bytes"
	"net"

	"github.com/valyala/fasthttp"
)

// Echo answers requests with given replies on fasthttp and nothing else, in its usual
// way: bodies are read before the handler runs.
type Echo struct {
	Replies map[string][]byte // by path; whole, as Once returns them
}

// Serve answers on l until it is closed.
func (e Echo) Serve(l net.Listener) error {
	type reply struct{ contentType, length, body []byte }
	replies := map[string]reply{}
	for path, whole := range e.Replies {
		var r fasthttp.ResponseHeader
		head, body, _ := bytes.Cut(whole, []byte("\r\n\r\n"))
		for line := range bytes.Lines(head) {
			if name, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(": ")); ok {
				r.SetBytesKV(name, value)
			}
		}
		replies[path] = reply{bytes.Clone(r.ContentType()), bytes.Clone(r.Peek(lengthHeader)), body}
	}
	s := &fasthttp.Server{Name: "symphony", MaxRequestBodySize: 64 << 20, Handler: func(ctx *fasthttp.RequestCtx) {
		r, ok := replies[string(ctx.Path())]
		if !ok || len(ctx.PostBody()) == 0 {
			ctx.SetStatusCode(fasthttp.StatusNotFound)
			return
		}
		ctx.Response.Header.SetContentTypeBytes(r.contentType)
		if len(r.length) > 0 {
			ctx.Response.Header.SetBytesV(lengthHeader, r.length)
		}
		ctx.Response.SetBody(r.body)
	}}
	return s.Serve(l)
}

// lengthHeader stands on replies with binary tensors.
const lengthHeader = "Inference-Header-Content-Length"
