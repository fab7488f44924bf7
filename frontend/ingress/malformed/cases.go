package malformed

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Cases is the table.
func Cases(t Target) []Case {
	out := t.syntax()
	out = append(out, t.tensors()...)
	out = append(out, t.parameters()...)
	out = append(out, t.binary()...)
	out = append(out, t.repository()...)
	out = append(out, t.transfer()...)
	out = append(out, t.framing()...)
	out = append(out, t.slow()...)
	return out
}

// body makes cases of infer bodies that are refused with 400.
func (t Target) body(name, body, text string) Case {
	return Case{Name: name, Status: 400, Text: text, Write: raw(t.post("", body))}
}

func (t Target) syntax() []Case {
	good := t.JSON(t.dims(), "FP32", list("0.5", t.elements(), ","), "")
	deep := strings.Repeat("[", 100_000)
	return []Case{
		t.body("empty body", "", "the body is empty"),
		t.body("JSON cut in the data", good[:len(good)-5], "inputs[0].data: the JSON ends early"),
		t.body("JSON cut in a key", `{"inp`, "ends early"),
		t.body("JSON cut after the inputs", good[:len(good)-1], "ends early"),
		t.body("no object", `[1,2]`, "an object expected"),
		t.body("garbage", "\x01\x02\x03", "an object expected"),
		t.body("two documents", good+good, "after its end"),
		t.body("not UTF-8", t.renamed(good, "\xff\xfe"), "UTF-8"),
		t.body("control character in a name", t.renamed(good, "a\x01b"), "inputs[0].name"),
		t.body("bad escape", t.renamed(good, `\q`), "inputs[0].name"),
		t.body("deep data", t.JSON(t.dims(), "FP32", deep, ""), "inputs[0].data: the JSON"),
		t.body("deep unknown key", `{"x":`+deep, "deeper than 100"),
		t.body("deep objects", strings.Repeat(`{"x":`, 100_000), "deeper than 100"),
		t.body("no inputs", `{}`, "inputs: missing"),
		t.body("inputs empty", `{"inputs":[]}`, "inputs: empty"),
		t.body("inputs of the wrong kind", `{"inputs":7}`, "inputs: "),
		t.body("inputs twice", `{"inputs":[],"inputs":[]}`, "inputs: given twice"),
		t.body("id of the wrong kind", t.JSON(t.dims(), "FP32", "0", `"id":7,`), "id: "),
		t.body("no name", `{"inputs":[{"shape":[1],"datatype":"FP32","data":[1]}]}`, "inputs[0].name: missing"),
		t.body("no shape", `{"inputs":[{"name":"x","datatype":"FP32","data":[1]}]}`, "inputs[0].shape: missing"),
		t.body("no datatype", `{"inputs":[{"name":"x","shape":[1],"data":[1]}]}`, "inputs[0].datatype: missing"),
		t.body("no data", `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32"}]}`, "inputs[0].data: missing"),
	}
}

func (t Target) tensors() []Case {
	d, n := t.dims(), t.elements()
	full := list("1", n, ",")
	text := strings.Replace(t.announced(fmt.Sprint(5*n)), `"FP32"`, `"BYTES"`, 1)
	one := strings.TrimSuffix(strings.TrimPrefix(t.JSON(d, "FP32", full, ""), `{"inputs":[`), `]}`)
	return []Case{
		t.body("unknown input", t.renamed(t.JSON(d, "FP32", full, ""), "nobody"), `inputs[0].name: "nobody" is no input`),
		t.body("input twice", `{"inputs":[`+one+","+one+`]}`, "inputs[1].name"),
		t.body("an input too many", `{"inputs":[`+one+`,{"name":"more","shape":[1],"datatype":"FP32","data":[1]}]}`, "inputs[1].name"),
		t.body("wrong shape", t.JSON(d+",7", "FP32", full, ""), "inputs[0].shape: "),
		t.body("negative dimension", t.JSON("-1", "FP32", full, ""), "inputs[0].shape[0]: -1 is negative"),
		t.body("fractional dimension", t.JSON("1.5", "FP32", full, ""), "inputs[0].shape[0]: 1.5 is not an integer"),
		t.body("dimension beyond 64 bits", t.JSON("99999999999999999999", "FP32", full, ""), "inputs[0].shape[0]: 99999999999999999999 is too large"),
		t.body("dimensions overflow", t.JSON("4294967296,4294967296,4294967296", "FP32", full, ""), "inputs[0].shape: its number of elements overflows"),
		t.body("a thousand dimensions", t.JSON(list("1", 1000, ","), "FP32", full, ""), "more than 32 dimensions"),
		t.body("empty batch", t.JSON("0,"+dims(t.Shape), "FP32", "", ""), "inputs[0].shape: "),
		t.body("huge batch", t.JSON("1000000,"+dims(t.Shape), "FP32", "", ""), "inputs[0].shape: "),
		t.body("wrong type", t.JSON(d, "INT32", full, ""), "inputs[0].datatype: INT32"),
		t.body("text", t.JSON(d, "BYTES", list(`"a"`, n, ","), ""), "inputs[0].datatype: BYTES (text) is not served"),
		{Name: "text as bytes", Status: 400, Text: "inputs[0].datatype: BYTES (text) is not served",
			Write: raw(t.post(header(len(text)), text+strings.Repeat("\x01\x00\x00\x00a", n)))},
		t.body("unknown type", t.JSON(d, "FP8", full, ""), `inputs[0].datatype: "FP8" is no type`),
		t.body("too few elements", t.JSON(d, "FP32", list("1", n-1, ","), ""), "inputs[0].data: "),
		t.body("too many elements", t.JSON(d, "FP32", list("1", n+1, ","), ""), "inputs[0].data: more than"),
		t.body("nested too deep", t.JSON(d, "FP32", "[[["+full+"]]]", ""), "inputs[0].data: "),
		t.body("ragged", t.JSON(d, "FP32", "[1],1", ""), "inputs[0].data: "),
		t.body("NaN in the data", t.JSON(d, "FP32", "NaN"+strings.Repeat(",1", n-1), ""), "inputs[0].data[0]: "),
		t.body("a string in the data", t.JSON(d, "FP32", list(`"1"`, n, ","), ""), "inputs[0].data[0]: "),
		t.body("FP32 overflows", t.JSON(d, "FP32", "1e999"+strings.Repeat(",1", n-1), ""), "out of the range of FP32"),
		t.body("leading zero", t.JSON(d, "FP32", "01"+strings.Repeat(",1", n-1), ""), "inputs[0].data"),
		t.body("shared memory", strings.Replace(t.announced("4"), "binary_data_size", "shared_memory_offset", 1), "data: missing"),
		t.body("unknown output", t.JSON(d, "FP32", full, `"outputs":[{"name":"nobody"}],`), `outputs[0].name: "nobody" is no output`),
		t.body("output twice", t.JSON(d, "FP32", full, fmt.Sprintf(`"outputs":[{"name":%q},{"name":%q}],`, t.Output, t.Output)), "outputs[1].name"),
		t.body("output without a name", t.JSON(d, "FP32", full, `"outputs":[{}],`), "outputs[0].name: missing"),
	}
}

func (t Target) parameters() []Case {
	with := func(p string) string {
		return t.JSON(t.dims(), "FP32", list("1", t.elements(), ","), `"parameters":{`+p+`},`)
	}
	return []Case{
		t.body("timeout NaN", with(`"timeout":NaN`), "parameters.timeout: "),
		t.body("timeout negative", with(`"timeout":-1`), "parameters.timeout: -1 is negative"),
		t.body("timeout huge", with(`"timeout":9999999999999`), "parameters.timeout: 9999999999999"),
		t.body("timeout beyond 64 bits", with(`"timeout":1e300`), "parameters.timeout: 1e300"),
		t.body("timeout text", with(`"timeout":"soon"`), "parameters.timeout: "),
		t.body("priority negative", with(`"priority":-1`), "parameters.priority: -1 is negative"),
		t.body("priority fractional", with(`"priority":1.5`), "parameters.priority: 1.5 is not an integer"),
		t.body("priority unknown", with(`"priority":256`), "parameters.priority: 256, must be 1 (the first) to 255"),
		t.body("details text", with(`"details":"yes"`), "parameters.details: "),
		t.body("priority text", with(`"priority":"high"`), "parameters.priority: "),
		t.body("timeout fractional", with(`"timeout":0.5`), "parameters.timeout: 0.5 is not an integer"),
		t.body("binary_data_output of the wrong kind", with(`"binary_data_output":1`), "parameters.binary_data_output: "),
		{Name: "unknown model", Status: 404, Text: "unknown model: 'nobody'", Write: raw(request("POST", "/v2/models/nobody/infer", "", with("")))},
		{Name: "unknown version", Status: 404, Text: "version 99", Write: raw(request("POST", "/v2/models/"+t.Model+"/versions/99/infer", "", with("")))},
		{Name: "bad escape in the path", Status: 400, Text: "path: ", Write: raw(request("POST", "/v2/models/%zz/infer", "", with("")))},
		{Name: "wrong method", Status: 405, Text: "only POST", Write: raw(request("GET", t.path(), "", ""))},
		{Name: "unknown path", Status: 404, Text: "no such path", Write: raw(request("POST", "/v3/models", "", with("")))},
		{Name: "classify with a bad k", Status: 400, Text: "k: ", Write: raw(request("POST", "/v1/classify/"+t.Model+"?k=-1", "", "no image"))},
		{Name: "classify without an image", Status: 400, Text: "the body is empty", Write: raw(request("POST", "/v1/classify/"+t.Model, "", ""))},
		{Name: "classify what is no image", Status: 400, Text: "", Write: raw(request("POST", "/v1/classify/"+t.Model, "", "no image"))},
	}
}

func (t Target) binary() []Case {
	size := 4 * t.elements()
	tensor := strings.Repeat("\x00", size)
	j := t.announced(fmt.Sprint(size))
	lie := func(name, headers, body, text string) Case {
		return Case{Name: name, Status: 400, Text: text, Write: raw(t.post(headers, body))}
	}
	const h = "Inference-Header-Content-Length"
	return []Case{
		lie("header length above the body", header(1<<20), j+tensor, h),
		lie("header length negative", h+": -5\r\n", j+tensor, h),
		lie("header length no number", h+": many\r\n", j+tensor, h),
		lie("header length beyond 64 bits", h+": 99999999999999999999\r\n", j+tensor, h),
		lie("header length in the JSON", header(len(j)-9), j+tensor, "ends early"),
		lie("header length in the tensor", header(len(j)+8), j+tensor, "after its end"),
		lie("no header length", "", j+tensor, "after its end"),
		lie("no header length and no tensor", "", j, "inputs[0].parameters.binary_data_size"),
		lie("tensor cut", header(len(j)), j+tensor[:size-1], "inputs[0].parameters.binary_data_size"),
		lie("tensor too long", header(len(j)), j+tensor+"x", "1 bytes more"),
		lie("size not the shape's", header(len(t.announced("8"))), t.announced("8")+tensor[:8], "inputs[0].parameters.binary_data_size: 8 bytes"),
		lie("size negative", header(len(t.announced("-4"))), t.announced("-4")+tensor, "inputs[0].parameters.binary_data_size: -4 is negative"),
		lie("size huge", header(len(t.announced("9223372036854775807"))), t.announced("9223372036854775807")+tensor, "inputs[0].parameters.binary_data_size"),
		lie("data in JSON and as bytes", header(len(j)+11), strings.Replace(j, `"parameters"`, `"data":[1],"parameters"`, 1)+tensor, "given in JSON and as binary_data_size"),
		lie("raw body of the wrong size", h+": 0\r\n", tensor+"x", fmt.Sprintf("%d bytes", size+1)),
	}
}

// repository calls whose bodies are wrong, whoever would carry them out.
func (t Target) repository() []Case {
	at := func(name, path, body, text string) Case {
		return Case{Name: name, Status: 400, Text: text, Write: raw(request("POST", "/v2/repository/"+path, "", body))}
	}
	load, unload := "models/"+t.Model+"/load", "models/"+t.Model+"/unload"
	config := func(name, config, text string) Case {
		quoted := strings.ReplaceAll(config, `"`, `\"`)
		return at(name, load, `{"parameters":{"config":"`+quoted+`"}}`, text)
	}
	return []Case{
		at("index of no JSON", "index", "ready", "the body: no JSON object"),
		at("index of a list", "index", "[true]", "the body: no JSON object"),
		at("index cut", "index", `{"ready":tr`, "the body: no JSON object"),
		at("index with a text", "index", `{"ready":"yes"}`, "ready: must be true or false"),
		at("index misspelt", "index", `{"redy":true}`, "redy: there is no such field, the nearest is ready"),
		at("load of no JSON", load, "{", "the body: no JSON object"),
		at("load with parameters that are none", load, `{"parameters":[]}`, "parameters: must be an object"),
		at("load with an unknown parameter", load, `{"parameters":{"confg":"{}"}}`, "parameters.confg: there is no such parameter, the nearest is config"),
		at("load with a file", load, `{"parameters":{"file:1/model.onnx":"AAAA"}}`, "files are not taken in requests"),
		at("load with an object for a config", load, `{"parameters":{"config":{}}}`, "parameters.config: must be a text"),
		config("config that is no JSON", "max_batch_size", "parameters.config: no JSON object"),
		config("config with an unknown field", `{"max_batch":1}`, "parameters.config.max_batch: there is no such field"),
		config("config of another model", `{"name":"another"}`, "parameters.config.name: a load cannot change it"),
		config("config with other inputs", `{"input":[]}`, "parameters.config.input: a load cannot change it"),
		config("config with a batch of 0", `{"max_batch_size":0}`, "parameters.config.max_batch_size: must be a whole number"),
		config("config with a broken batch", `{"max_batch_size":1.5}`, "parameters.config.max_batch_size: must be a whole number"),
		config("config with a policy of no kind", `{"version_policy":{"newest":{}}}`, "parameters.config.version_policy: must be"),
		config("config with two policies", `{"version_policy":{"all":{},"latest":{}}}`, "parameters.config.version_policy: must be"),
		config("config with no versions", `{"version_policy":{"specific":{"versions":[]}}}`, "parameters.config.version_policy: must be"),
		config("config with a bad version", `{"version_policy":{"specific":{"versions":[-1]}}}`, "parameters.config.version_policy: must be"),
		config("config with an SLO of NaN", `{"parameters":{"slo_ms":{"string_value":"NaN"}}}`, "parameters.config.parameters.slo_ms: "),
		config("config with an SLO of a day", `{"parameters":{"slo_ms":{"string_value":"86400000"}}}`, "parameters.config.parameters.slo_ms: "),
		config("config with a bare SLO", `{"parameters":{"slo_ms":50}}`, "string_value"),
		config("config with an unknown drop policy", `{"parameters":{"drop_policy":{"string_value":"tail"}}}`, "none of target, head"),
		config("config with an unknown setting", `{"parameters":{"slo":{"string_value":"50"}}}`, "there is no such parameter, the nearest is slo_ms"),
		at("unload with an unknown parameter", unload, `{"parameters":{"force":true}}`, "parameters.force: there is no such parameter"),
		at("unload with a text", unload, `{"parameters":{"unload_dependents":"yes"}}`, "must be true or false"),
		{Name: "load of 1 MB", Status: 413, Text: "above 65536 bytes", Write: raw(request("POST", "/v2/repository/"+load, "", strings.Repeat(" ", 1<<20)))},
	}
}

func (t Target) transfer() []Case {
	body := t.JSON(t.dims(), "FP32", list("1", t.elements(), ","), "")
	start := "POST " + t.path() + " HTTP/1.1\r\nHost: symphony\r\n"
	at := func(name string, status int, text, request string) Case {
		return Case{Name: name, Status: status, Text: text, Write: raw([]byte(request))}
	}
	zipped := zip(body)
	return []Case{
		at("a body of 1 GB announced", 413, "above", start+"Content-Length: 1073741824\r\n\r\n"),
		at("a body of 1 GB announced, with Expect", 413, "above", start+"Content-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n"),
		{Name: "a body of 1 GB sent", Status: 413, Text: "above", Write: endless(start+"Content-Length: 1073741824\r\n\r\n", strings.Repeat("x", 1<<16))},
		{Name: "chunks without end", Status: 413, Text: "above",
			Write: endless(start+"Transfer-Encoding: chunked\r\n\r\n", "10000\r\n"+strings.Repeat(" ", 1<<16)+"\r\n")},
		at("chunk size no number", 400, "body cannot be read", start+"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"),
		at("chunk size huge", 400, "body cannot be read", start+"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
		at("chunk longer than it says", 400, "body cannot be read", start+"Transfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n"),
		{Name: "body cut", Status: 400, Text: "ends early", Half: true, Write: raw([]byte(start + "Content-Length: 50\r\n\r\n{"))},
		{Name: "chunks cut", Status: 400, Text: "the body cannot be read", Half: true, Write: raw([]byte(start + "Transfer-Encoding: chunked\r\n\r\n5\r\nab"))},
		at("gzip bomb", 413, "above", string(t.post("Content-Encoding: gzip\r\n", bomb(4*t.BodyMax)))),
		at("gzip cut", 400, "cannot be decompressed", string(t.post("Content-Encoding: gzip\r\n", zipped[:len(zipped)-10]))),
		at("gzip with a wrong sum", 400, "cannot be decompressed", string(t.post("Content-Encoding: gzip\r\n", zipped[:len(zipped)-8]+"\x00\x00\x00\x00"+zipped[len(zipped)-4:]))),
		at("not gzip", 400, "cannot be decompressed", string(t.post("Content-Encoding: gzip\r\n", body))),
		at("not deflate", 400, "cannot be decompressed", string(t.post("Content-Encoding: deflate\r\n", "\xff\xff\xff\xff\xff\xff"))),
		at("unknown encoding", 415, "br", string(t.post("Content-Encoding: br\r\n", body))),
		at("Content-Length no number", 400, "malformed HTTP request", start+"Content-Length: many\r\n\r\n"),
		at("Content-Length negative", 400, "malformed HTTP request", start+"Content-Length: -1\r\n\r\n"),
		at("Content-Length twice", 400, "malformed HTTP request", start+"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
		at("no host", 400, "malformed HTTP request", "POST "+t.path()+" HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
		at("no HTTP", 400, "malformed HTTP request", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
		at("headers too large", 431, "above", start+"X-Long: "+strings.Repeat("y", 1<<17)+"\r\n\r\n"),
		at("line too long", 431, "above", "GET /"+strings.Repeat("z", 1<<17)+" HTTP/1.1\r\nHost: x\r\n\r\n"),
	}
}

// slow cases send a byte now and then; the server has to end it.
func (t Target) slow() []Case {
	start := "POST " + t.path() + " HTTP/1.1\r\nHost: symphony\r\n"
	drip := func(head, piece string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, head)
			for i := 0; err == nil; i++ {
				time.Sleep(50 * time.Millisecond)
				_, err = io.WriteString(w, piece)
			}
			return nil
		}
	}
	return []Case{
		{Name: "slow headers", Slow: true, Status: 408, Text: "did not arrive in time", Write: drip(start, "X")},
		{Name: "slow body", Slow: true, Status: 408, Text: "did not arrive in time", Write: drip(start+"Content-Length: 100000\r\n\r\n", " ")},
		{Name: "slow large body", Slow: true, Status: 408, Text: "did not arrive in time", Write: drip(start+"Content-Length: 100000\r\n\r\n"+strings.Repeat(" ", 10000), " ")},
		{Name: "slow chunks", Slow: true, Status: 408, Text: "did not arrive in time", Write: drip(start+"Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n")},
		{Name: "silence in the body", Slow: true, Status: 408, Text: "did not arrive in time", Write: raw([]byte(start + "Content-Length: 10\r\n\r\n"))},
	}
}
