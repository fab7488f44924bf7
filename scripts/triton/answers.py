"""Sends one request to one server, and takes the answer apart so that two can be compared."""
import base64
import http.client
import json
import struct

import grpc
from google.protobuf import json_format
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

HEADER = "Inference-Header-Content-Length"
SECONDS = 30


class Answer:
    """status: HTTP's, or gRPC's code; error: it is a refusal; body: of which dictionaries and lists are compared."""

    def __init__(self, status, error, body, kind=""):
        self.status, self.error, self.body, self.kind = status, error, body, kind


def web(server, method, path, body=b"", headers=None, chunked=False, cut=False):
    """One HTTP request on a connection of its own. cut: the client sends no more after the body."""
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    elif isinstance(body, str):
        body = body.encode()
    connection = http.client.HTTPConnection(server.http, timeout=SECONDS)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        headers = dict(headers or {})
        if chunked:
            headers["Transfer-Encoding"] = "chunked"
            half = len(body) // 2
            body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:half], body[half:], b""))
        elif "Content-Length" not in headers and (body or method in ("POST", "PUT")):
            headers["Content-Length"] = str(len(body))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body or None)
        if cut:
            connection.sock.shutdown(1)
        reply = connection.getresponse()
        return web_answer(reply, reply.read())
    except (http.client.HTTPException, ConnectionError, TimeoutError) as e:
        return Answer("no answer", True, {"error": repr(e)})
    finally:
        connection.close()


def web_answer(reply, content):
    encoding = reply.getheader("Content-Encoding")
    if encoding:
        import zlib
        content = zlib.decompress(content, 47)  # either format
    kind = (reply.getheader("Content-Type") or "none").split(";")[0]
    length = reply.getheader(HEADER)
    tail = b""
    if length is not None:
        content, tail = content[:int(length)], content[int(length):]
    try:
        body = json.loads(content) if content else None
    except ValueError:
        body = {"text": content.decode(errors="replace")}
    if isinstance(body, dict) and isinstance(body.get("outputs"), list):
        for o in body["outputs"]:
            size = o.get("parameters", {}).get("binary_data_size")
            if size is not None:
                o["binary"], tail = tail[:size].hex(), tail[size:]
    if tail:
        body["tail"] = tail.hex()
    if encoding:
        body = {"encoding": encoding, "body": body}
    return Answer(reply.status, reply.status >= 400, body, kind)


class Calls:
    """gRPC's calls to one server."""

    def __init__(self, server):
        self.channel = grpc.insecure_channel(server.grpc)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)


def call(server, method, message, **how):
    try:
        return Answer("OK", False, document(getattr(server.calls.stub, method)(message, timeout=how.pop("timeout", SECONDS), **how)))
    except grpc.RpcError as e:
        return refused(e)


def raw_call(server, path, message=b""):
    """A call that the made stubs do not have; its answer's bytes."""
    try:
        reply = server.calls.channel.unary_unary(path)(message, timeout=SECONDS)
        return Answer("OK", False, {"bytes": reply.hex()})
    except grpc.RpcError as e:
        return refused(e)


def stream(server, messages):
    """All answers of one ModelStreamInfer: a list of messages, in which errors are {"error": text}."""
    got = []
    try:
        for r in server.calls.stub.ModelStreamInfer(iter(messages), timeout=SECONDS):
            one = document(r)
            got.append({"refused": bool(one["error_message"])} if one["error_message"] else one["infer_response"])
        return Answer("OK", False, got)
    except grpc.RpcError as e:
        a = refused(e)
        a.body["before"] = len(got)
        return a


def refused(e):
    return Answer(e.code().name, True, {"error": e.details()})


def document(message):
    of = json_format.MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    for r in (of, of.get("infer_response", {})):
        if "raw_output_contents" in r:
            r["raw_output_contents"] = [base64.b64decode(b).hex() for b in r["raw_output_contents"]]
    return of


def floats(*v):
    return struct.pack("<%df" % len(v), *v)


def texts(*v):
    return b"".join(struct.pack("<I", len(t)) + t for t in v)


def binary(header, *tensors):
    """The body and headers of a request in the binary extension."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return dict(body=text + b"".join(tensors), headers={HEADER: str(len(text))})


def parameters(into, **values):
    """Puts values into a message's map of parameters."""
    for name, v in values.items():
        field = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}[type(v)]
        setattr(into[name], field, v)


__all__ = ["Answer", "Calls", "HEADER", "binary", "call", "floats", "parameters", "pb", "raw_call", "stream", "texts", "web"]
