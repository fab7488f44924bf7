"""Inferences over HTTP, good and bad."""
import gzip
import json
import struct
import threading
import time
import zlib

from answers import HEADER, binary, floats, texts, web
from cases import A, B, add, case, crowd, simple, sized, tensor

INFER = "/v2/models/add/infer"


def post(name, body, path=INFER, **how):
    simple("http infer " + name, "POST", path, body, **how)


def model(name):
    return "/v2/models/%s/infer" % name


# Good ones.
post("JSON", add())
post("JSON, with version", add(), "/v2/models/add/versions/1/infer")
post("JSON, nested data", add(tensor("A", [A], [1, 4]), tensor("B", [B], [1, 4])))
post("JSON, inputs in another order", {"inputs": [tensor("B", B), tensor("A", A)]})
post("JSON, 3 items", add(tensor("A", A * 3, [3, 4]), tensor("B", B * 3, [3, 4])))
post("JSON, 8 items", add(tensor("A", A * 8, [8, 4]), tensor("B", B * 8, [8, 4])))
post("JSON, Content-Type text/plain", add(), headers={"Content-Type": "text/plain"})
post("id", add(id="request-7"))
post("id, of letters beyond ASCII", add(id="\u00e4\U0001f600"))
post("id, empty", add(id=""))
post("id, a number", add(id=7))
post("id, null", add(id=None))
post("one output", add(outputs=[{"name": "DIFF"}]))
post("outputs in another order", add(outputs=[{"name": "DIFF"}, {"name": "SUM"}]))
post("outputs: an empty list", add(outputs=[]))
post("unknown keys", add(unheard={"of": [1, None]}))
post("unknown parameters", add(parameters={"unheard": "x", "answer": 42, "yes": True}))
post("parameters: an object in one", add(parameters={"unheard": {"a": 1}}))
post("parameters: a list", add(parameters=[1]))
post("parameters of an input, unknown", add(tensor("A", A, parameters={"unheard": 1})))
post("priority", add(parameters={"priority": 1}))
post("priority, the last", add(parameters={"priority": 255}))
post("priority 0", add(parameters={"priority": 0}))
post("priority beyond the last", add(parameters={"priority": 256}))
post("priority is negative", add(parameters={"priority": -1}))
post("priority is text", add(parameters={"priority": "high"}))
post("sequence parameters", add(parameters={"sequence_id": 42, "sequence_start": True, "sequence_end": True}))
post("sequence_id is text", add(parameters={"sequence_id": "s", "sequence_start": True}))
post("chunked", add(), chunked=True)
post("gzip", gzip.compress(json.dumps(add()).encode()), headers={"Content-Encoding": "gzip"})
post("deflate", zlib.compress(json.dumps(add()).encode()), headers={"Content-Encoding": "deflate"})
post("reply by gzip", add(tensor("A", A * 8, [8, 4]), tensor("B", B * 8, [8, 4]), id="x" * 2000), headers={"Accept-Encoding": "gzip"})
post("reply by deflate", add(tensor("A", A * 8, [8, 4]), tensor("B", B * 8, [8, 4]), id="x" * 2000), headers={"Accept-Encoding": "deflate"})
post("a short reply by gzip", add(), headers={"Accept-Encoding": "gzip"})

# The binary extension.
post("binary in", **binary({"inputs": [sized("A"), sized("B")]}, floats(*A), floats(*B)))
post("binary in and out", **binary({"inputs": [sized("A"), sized("B")], "outputs": [{"name": "SUM", "parameters": {"binary_data": True}}]}, floats(*A), floats(*B)))
post("binary in, 3 items", **binary({"inputs": [sized("A", (3, 4), 48), sized("B", (3, 4), 48)]}, floats(*A * 3), floats(*B * 3)))
post("binary_data_output", add(parameters={"binary_data_output": True}))
post("binary_data_output, and one output not", add(parameters={"binary_data_output": True}, outputs=[{"name": "SUM", "parameters": {"binary_data": False}}, {"name": "DIFF"}]))
post("binary_data_output is text", add(parameters={"binary_data_output": "yes"}))
post("binary_data is a number", add(outputs=[{"name": "SUM", "parameters": {"binary_data": 1}}]))
post("JSON and binary beside each other", **binary({"inputs": [tensor("A", A), sized("B")]}, floats(*B)))
post("JSON with the header length of all", **binary(add()))
post("raw body", floats(*A), model("counted"), headers={HEADER: "0"})
post("raw body of two inputs", floats(*A), headers={HEADER: "0"})
post("raw body, too short", floats(*A[:3]), model("counted"), headers={HEADER: "0"})
post("raw body, too long", floats(*A, 5), model("counted"), headers={HEADER: "0"})
post("not a number in, JSON out", **binary({"inputs": [sized("A"), sized("B")]}, floats(float("nan"), float("inf"), -float("inf"), 0), floats(0, 0, 0, 0)))

# All types.
JSON_VALUES = {
    "FP32": [0.1, -3.5], "UINT8": [0, 255], "INT8": [-128, 127], "UINT16": [0, 65535], "INT16": [-32768, 32767], "INT32": [-2**31, 2**31 - 1],
    "INT64": [-2**63, 2**63 - 1], "BOOL": [True, False], "FP64": [0.1, -1e300], "UINT32": [0, 2**32 - 1], "UINT64": [0, 2**64 - 1]}
PACKED = {"FP32": "f", "UINT8": "B", "INT8": "b", "UINT16": "H", "INT16": "h", "INT32": "i", "INT64": "q", "BOOL": "?", "FP64": "d", "UINT32": "I", "UINT64": "Q"}


def types(**instead):
    """All types as JSON, of some with other data."""
    return {"inputs": [tensor("in_" + t, instead.get(t, v), [1, 2], t) for t, v in JSON_VALUES.items()]}


def packed(values):
    return [struct.pack("<2" + PACKED[t], *v) for t, v in values.items()]


post("all types, JSON", types(), model("types"))
post("all types, binary", path=model("types"), **binary(
    {"inputs": [sized("in_" + t, (1, 2), len(d), t) for t, d in zip(JSON_VALUES, packed(JSON_VALUES))], "parameters": {"binary_data_output": True}}, *packed(JSON_VALUES)))
for t, wrong in (("INT32", [1.5, 2]), ("INT8", [128, 0]), ("UINT8", [-1, 0]), ("UINT64", [-1, 0]), ("INT64", [2**63, 0]), ("BOOL", [1, 0]), ("BOOL", ["true", "false"]),
                 ("FP32", [1e39, 0]), ("FP32", ["1", "2"]), ("FP64", [None, 1]), ("FP32", [1, 2]), ("INT32", [True, False])):
    post("%s as JSON %s" % (t, json.dumps(wrong)), types(**{t: wrong}), model("types"))
HALF = struct.pack("<4e", 1.5, -2, 65504, 6e-8)
post("FP16, binary", path=model("half"), **binary({"inputs": [sized("in_FP16", size=8, datatype="FP16")], "parameters": {"binary_data_output": True}}, HALF))
post("FP16, binary in, JSON out", path=model("half"), **binary({"inputs": [sized("in_FP16", size=8, datatype="FP16")]}, HALF))
post("FP16 as JSON", {"inputs": [tensor("in_FP16", A, datatype="FP16")]}, model("half"))
post("BF16, binary", path=model("brain"), **binary({"inputs": [sized("in_BF16", size=8, datatype="BF16")], "parameters": {"binary_data_output": True}}, b"\x80\x3f\x00\x40\x40\x40\x80\x40"))
post("BYTES as JSON", {"inputs": [tensor("in_BYTES", ["a", "", "\u00e4", "d"], datatype="BYTES")]}, model("text"))
TEXTS = texts(b"a", b"", "\u00e4".encode(), b"\x00\xff")
post("BYTES, binary", path=model("text"), **binary({"inputs": [sized("in_BYTES", size=len(TEXTS), datatype="BYTES")], "parameters": {"binary_data_output": True}}, TEXTS))
post("BYTES for FP32", add(tensor("A", ["a", "b", "c", "d"], datatype="BYTES")))
post("BF16 for FP32", **binary({"inputs": [sized("A", size=8, datatype="BF16"), tensor("B", B)]}, bytes(8)))

# Classification.
for k in (1, 3, 4, 9, 0):
    post("classification %d" % k, add(outputs=[{"name": "SUM", "parameters": {"classification": k}}]))
post("classification -1", add(outputs=[{"name": "SUM", "parameters": {"classification": -1}}]))
post("classification is text", add(outputs=[{"name": "SUM", "parameters": {"classification": "2"}}]))
post("classification, binary", add(outputs=[{"name": "SUM", "parameters": {"classification": 2, "binary_data": True}}]))
post("classification, 2 items", add(tensor("A", A * 2, [2, 4]), tensor("B", B * 2, [2, 4]), outputs=[{"name": "SUM", "parameters": {"classification": 2}}]))
post("classification of an output without labels", add(outputs=[{"name": "DIFF", "parameters": {"classification": 2}}]))
post("classification of equal values", add(tensor("A", [1.0, 1.0, 1.0, 1.0]), tensor("B", [1.0, 1.0, 1.0, 1.0]), outputs=[{"name": "SUM", "parameters": {"classification": 2}}]))

# Inputs that do not fit.
post("an input is missing", {"inputs": [tensor("A", A)]})
post("an input is unknown", {"inputs": [tensor("A", A), tensor("B", B), tensor("C", A)]})
post("an input has another name", {"inputs": [tensor("A", A), tensor("C", A)]})
post("an input twice", {"inputs": [tensor("A", A), tensor("A", A), tensor("B", B)]})
post("wrong shape", add(tensor("A", A + A, [1, 8])))
post("one dimension too many", add(tensor("A", A, [1, 1, 4])))
post("no dimension for the batch", add(tensor("A", A, [4]), tensor("B", B, [4])))
post("shape: empty", add(tensor("A", [], [])))
post("batches differ", add(tensor("A", A * 2, [2, 4])))
post("above max_batch_size", add(tensor("A", A * 9, [9, 4]), tensor("B", B * 9, [9, 4])))
post("a batch of 0", add(tensor("A", [], [0, 4]), tensor("B", [], [0, 4])))
post("a negative dimension", add(tensor("A", A, [-1, 4])))
post("shape: text", add(tensor("A", A, ["1", 4])))
post("shape: a fraction", add(tensor("A", A, [1.5, 4])))
post("shape overflows", add(tensor("A", A, [2**62, 4])))
post("wrong datatype", add(tensor("A", [1, 2, 3, 4], datatype="INT32")))
post("unknown datatype", add(tensor("A", A, datatype="FP33")))
post("datatype in small letters", add(tensor("A", A, datatype="fp32")))
post("too little data", add(tensor("A", A[:3], [1, 4])))
post("too much data", add(tensor("A", A + [5.0], [1, 4])))
post("ragged data", add(tensor("A", [[1.0, 2.0, 3.0], [4.0]], [1, 4])))
post("data: text", add(tensor("A", "1234", [1, 4])))
post("data: an object", add(tensor("A", {"a": 1}, [1, 4])))
for key in ("name", "shape", "datatype", "data"):
    post("without " + key, add({k: v for k, v in tensor("A", A).items() if k != key}))
post("name: a number", add({**tensor("A", A), "name": 7}))
post("an unknown output", add(outputs=[{"name": "PRODUCT"}]))
post("an output twice", add(outputs=[{"name": "SUM"}, {"name": "SUM"}]))
post("an output without name", add(outputs=[{"parameters": {}}]))
post("outputs: an object", add(outputs={"name": "SUM"}))
post("inputs: an object", {"inputs": {"A": A}})
post("inputs: empty", {"inputs": []})
post("inputs: missing", {"id": "1"})

# What is no request.
post("empty body", b"")
post("empty object", {})
post("malformed JSON", '{"inputs": [')
post("JSON, and more behind it", json.dumps(add()) + "x")
post("JSON list", [])
post("JSON null", "null")
post("a text that is no UTF-8", b'{"id": "\xff\xfe", "inputs": []}')
post("nested deeply", '{"x": ' + "[" * 5000 + "]" * 5000 + "}")
post("a key twice", json.dumps(add())[:-1] + ', "id": "a", "id": "b"}')
post("gzip, corrupt", b"\x1f\x8b\x08\x00nonsense", headers={"Content-Encoding": "gzip"})
post("gzip, but it is not", json.dumps(add()), headers={"Content-Encoding": "gzip"})
post("unknown encoding", json.dumps(add()), headers={"Content-Encoding": "br"})
post("the body ends early", json.dumps(add()), headers={"Content-Length": "5000"}, cut=True)
post("Content-Length is no number", json.dumps(add()), headers={"Content-Length": "many"})

# The binary extension, wrong.
BINARY = {"inputs": [sized("A"), sized("B")]}
post("binary_data_size too small", **binary({"inputs": [sized("A", size=12), sized("B")]}, floats(*A[:3]), floats(*B)))
post("binary_data_size too large", **binary({"inputs": [sized("A", size=20), sized("B")]}, floats(*A, 5), floats(*B)))
post("binary_data_size beyond the body", **binary({"inputs": [sized("A"), sized("B", size=4096)]}, floats(*A), floats(*B)))
post("binary_data_size is negative", **binary({"inputs": [sized("A", size=-1), sized("B")]}, floats(*A), floats(*B)))
post("binary_data_size is text", **binary({"inputs": [sized("A", size="16"), sized("B")]}, floats(*A), floats(*B)))
post("binary data is missing", **binary(BINARY, floats(*A)))
post("binary data is too long", **binary(BINARY, floats(*A), floats(*B), b"more"))
post("binary_data_size and data", **binary({"inputs": [tensor("A", A, parameters={"binary_data_size": 16}), sized("B")]}, floats(*A), floats(*B)))
post("header length beyond the body", add(), headers={HEADER: "100000"})
post("header length is text", add(), headers={HEADER: "long"})
post("header length is negative", add(), headers={HEADER: "-1"})
post("header length cuts the JSON", json.dumps(BINARY).encode() + floats(*A) + floats(*B), headers={HEADER: "20"})
post("header length reaches into the tensors", json.dumps(BINARY).encode() + floats(*A) + floats(*B), headers={HEADER: str(len(json.dumps(BINARY)) + 4)})
post("header length is missing", json.dumps(BINARY).encode() + floats(*A) + floats(*B))

# Models that are not there.
post("unknown model", add(), model("nobody"))
post("unknown version", add(), "/v2/models/add/versions/9/infer")
post("version is no number", add(), "/v2/models/add/versions/x/infer")

# Timeouts.
SLOW = {"inputs": [tensor("x", A + A)]}
post("a timeout that is long enough", {**SLOW, "parameters": {"timeout": 20_000_000}}, model("slow"))
post("timeout 0", {**SLOW, "parameters": {"timeout": 0}}, model("slow"))
post("timeout shorter than the model takes", {**SLOW, "parameters": {"timeout": 100_000}}, model("slow"))
post("timeout is negative", add(parameters={"timeout": -1}))
post("timeout is text", add(parameters={"timeout": "soon"}))
post("timeout is a fraction", add(parameters={"timeout": 1e6 + 0.5}))

case("http infer more than may wait")(lambda server: crowd(server, lambda s: web(s, "POST", model("busy"), SLOW)))


@case("http infer timeout passes while another one runs")
def _(server):
    first = threading.Thread(target=web, args=(server, "POST", model("slow"), SLOW))
    first.start()
    time.sleep(0.15)
    answer = web(server, "POST", model("slow"), {**SLOW, "parameters": {"timeout": 50_000}})
    first.join()
    return answer
