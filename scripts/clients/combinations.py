"""All combinations of what Triton's clients let one choose of a request's encoding, each answer looked at.

    python combinations.py HTTP_HOST:PORT GRPC_HOST:PORT MODEL

Of HTTP: input and output as binary or as JSON, request and reply plain, gzip or deflate. Of gRPC: the
three compressions. Both: by the plain, the asynchronous and the asyncio client, of 1 and of 3 items; in a
stream, too. A row is a way of calling, its note how many combinations there were.
"""
import asyncio
import itertools
import queue
import sys

import tritonclient.grpc as tg
import tritonclient.grpc.aio as tga
import tritonclient.http as th
import tritonclient.http.aio as tha

from rows import check, data, report, same

HTTP, GRPC, MODEL = sys.argv[1:4]
CODINGS = (None, "gzip", "deflate")


def call(lib, a, binary_in=None, binary_out=None):
    """The arguments of a call with a as its input."""
    i = lib.InferInput("input", list(a.shape), "FP32")
    i.set_data_from_numpy(a, **({} if binary_in is None else {"binary_data": binary_in}))
    o = lib.InferRequestedOutput("output", **({} if binary_out is None else {"binary_data": binary_out}))
    return dict(model_name=MODEL, inputs=[i], outputs=[o])


def of_http():
    """Every combination: the input, the call's arguments."""
    ways = itertools.product((True, False), (True, False), CODINGS, CODINGS, (1, 3))
    for k, (binary_in, binary_out, request, reply, items) in enumerate(ways):
        a = data(items, k)
        yield a, dict(call(th, a, binary_in, binary_out), request_compression_algorithm=request, response_compression_algorithm=reply)


def of_grpc():
    for k, (coding, items) in enumerate(itertools.product(CODINGS, (1, 3))):
        a = data(items, k)
        yield a, dict(call(tg, a), compression_algorithm=coding)


def encoded(result, how):
    """The reply came as it was asked for: HTTP's output says whether it is binary."""
    if "request_compression_algorithm" in how:
        o = result.get_response()["outputs"][0]
        assert ("data" in o) != how["outputs"][0]._get_tensor()["parameters"]["binary_data"], o


def many(ways):
    return f"{len(ways)} combinations"


for label, lib, address, ways in (("http", th, HTTP, list(of_http())), ("grpc", tg, GRPC, list(of_grpc()))):
    @check(f"{label}: all encodings")
    def _():
        with lib.InferenceServerClient(address) as c:
            for a, how in ways:
                r = c.infer(**how)
                encoded(r, how)
                same(r.as_numpy("output"), a)
        return many(ways)

    @check(f"{label}: all encodings, asynchronous")
    def _():
        with lib.InferenceServerClient(address, **({"concurrency": 8} if lib is th else {})) as c:
            if lib is th:
                for (a, how), r in [((a, how), c.async_infer(**how)) for a, how in ways]:
                    r = r.get_result()
                    encoded(r, how)
                    same(r.as_numpy("output"), a)
                return many(ways)
            done = queue.Queue()
            for k, (a, how) in enumerate(ways):
                c.async_infer(**how, request_id=str(k), callback=lambda result, error: done.put((result, error)))
            left = {str(k): a for k, (a, _) in enumerate(ways)}
            while left:
                r, error = done.get(timeout=30)
                assert error is None, error
                same(r.as_numpy("output"), left.pop(r.get_response().id))
        return many(ways)

    @check(f"{label}: all encodings, asyncio")
    def _():
        async def run():
            async with (tha if lib is th else tga).InferenceServerClient(address) as c:
                for (a, how), r in zip(ways, await asyncio.gather(*[c.infer(**how) for _, how in ways])):
                    encoded(r, how)
                    same(r.as_numpy("output"), a)
            return many(ways)
        return run()


@check("grpc: streams, plain and compressed")
def _():
    for coding in CODINGS:
        done = queue.Queue()
        with tg.InferenceServerClient(GRPC) as c:
            c.start_stream(lambda result, error: done.put((result, error)), compression_algorithm=coding)
            for k in range(20):
                c.async_stream_infer(**call(tg, data(1, k)), request_id=str(k))
            for k in range(20):  # a stream answers in order
                r, error = done.get(timeout=30)
                assert error is None and r.get_response().id == str(k), (coding, k, error)
                same(r.as_numpy("output"), data(1, k))
            c.stop_stream()
    return many(CODINGS)


@check("grpc: streams, plain and compressed, asyncio")
def _():
    async def ask():
        for k in range(20):
            yield dict(call(tga, data(1, k)), request_id=str(k))

    async def run():
        async with tga.InferenceServerClient(GRPC) as c:
            for coding in CODINGS:
                k = 0
                async for r, error in c.stream_infer(ask(), compression_algorithm=coding):
                    assert error is None and r.get_response().id == str(k), (coding, k, error)
                    same(r.as_numpy("output"), data(1, k))
                    k += 1
                assert k == 20, (coding, k)
        return many(CODINGS)
    return run()


report("tritonclient")
