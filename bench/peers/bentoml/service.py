"""Emulated models behind BentoML: a batch of b takes alpha*b + beta.

One worker holds all models. The device is one thread that sleeps: one batch at a
time runs on it. PEERS_SETUP names a JSON file with the models and the setting.
BentoML's batching takes and gives its own JSON; `Translate` makes it of the Open
Inference Protocol's binary request, and the protocol's JSON of what comes back.
"""

import array
import asyncio
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import bentoml

with open(os.environ["PEERS_SETUP"]) as f:
    SETUP = json.load(f)
DEVICE = ThreadPoolExecutor(max_workers=1)


def api(m):
    async def run(self, x: list[list[float]]) -> list[list[float]]:
        span = (m["alpha_ms"] * len(x) + m["beta_ms"]) / 1e3
        await asyncio.get_running_loop().run_in_executor(DEVICE, time.sleep, span)
        return x

    run.__name__ = "model_" + m["name"]
    route = "/v2/models/" + m["name"] + "/infer"
    return bentoml.api(route=route, batchable=True, max_batch_size=m["batch_max"], max_latency_ms=m["latency_ms"])(run)


BEFORE, AFTER = b'{"outputs":[{"name":"output","datatype":"FP32","shape":[1,8],"data":', b"}]}"


class Translate:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        headers = dict(scope["headers"])
        head = int(headers.pop(b"inference-header-content-length", b"0"))
        body, more = b"", True
        while more:
            part = await receive()
            if part["type"] != "http.request":
                return
            body, more = body + part.get("body", b""), part.get("more_body", False)
        data = b'{"x":[' + json.dumps(array.array("f", body[head:]).tolist()).encode() + b"]}"
        headers[b"content-type"], headers[b"content-length"] = b"application/json", str(len(data)).encode()
        scope = dict(scope, headers=list(headers.items()))
        given, before, after = False, b"", b""

        async def reply(message):
            nonlocal before, after
            if message["type"] == "http.response.start" and message["status"] == 200:
                before, after = BEFORE, AFTER
                longer = {b"content-length": len(before) + len(after)}
                message["headers"] = [(k, str(int(v) + longer[k]).encode() if k in longer else v) for k, v in message["headers"]]
            elif message["type"] == "http.response.body":
                message["body"] = before + message.get("body", b"") + (b"" if message.get("more_body") else after)
                before = b""
            await send(message)

        async def again():
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": data, "more_body": False}

        await self.app(scope, again, reply)


Peers = type("Peers", (), {"model_" + m["name"]: api(m) for m in SETUP["models"]})
Peers.__module__ = __name__
Peers = bentoml.service(workers=1, traffic={"timeout": 10, "max_concurrency": 4096}, logging={"access": {"enabled": False}}, metrics={"enabled": False})(Peers)
Peers.add_asgi_middleware(Translate)
