"""Emulated models behind Ray Serve: a batch of b takes alpha*b + beta.

One replica holds all models. The device is one thread that sleeps: one batch at
a time runs on it. PEERS_SETUP names a JSON file with the models and the setting.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

# What the Open Inference Protocol wants before the tensor.
HEAD = b'{"outputs":[{"name":"output","datatype":"FP32","shape":[1,8],"parameters":{"binary_data_size":32}}]}'
HEADERS = {"inference-header-content-length": str(len(HEAD))}


QUIET = {"log_level": "WARNING", "enable_access_log": False}


@serve.deployment(num_replicas=1, max_ongoing_requests=4096, ray_actor_options={"num_cpus": 0}, logging_config=QUIET)
class Device:
    def __init__(self, setup):
        self.device = ThreadPoolExecutor(max_workers=1)
        self.models = {m["name"]: self.model(m) for m in setup["models"]}

    def model(self, m):
        @serve.batch(max_batch_size=m["batch_max"], batch_wait_timeout_s=m["delay_ms"] / 1e3)
        async def run(inputs):
            span = (m["alpha_ms"] * len(inputs) + m["beta_ms"]) / 1e3
            await asyncio.get_running_loop().run_in_executor(self.device, time.sleep, span)
            return inputs

        return run

    async def __call__(self, request: Request):
        name = request.url.path.split("/")[3]
        body = await request.body()
        head = int(request.headers["inference-header-content-length"])
        output = await self.models[name](body[head:])
        return Response(HEAD + output, headers=HEADERS, media_type="application/octet-stream")


def main():
    with open(os.environ["PEERS_SETUP"]) as f:
        setup = json.load(f)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 << 20,
        log_to_driver=False,
        _temp_dir=setup["folder"],
    )
    timeout = setup["timeout_ms"] / 1e3
    serve.start(http_options={"host": "127.0.0.1", "port": setup["port"], "request_timeout_s": timeout or None}, logging_config=QUIET)
    serve.run(Device.bind(setup), name="peers", route_prefix="/")
    ended = threading.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: ended.set())
    print("serving", flush=True)
    while not ended.wait(1):
        pass
    sys.exit(0)


if __name__ == "__main__":
    main()
