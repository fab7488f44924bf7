"""An emulated model for Triton's Python backend: a batch of b takes alpha*b + beta.

The device is a lock on a file: where several models share it, one batch at a
time runs on it. "lock" is "none" where one model has it alone, or where Triton's
rate limiter keeps them apart.
"""

import fcntl
import json
import time

import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        of = json.loads(args["model_config"])["parameters"]
        self.alpha = float(of["alpha_ms"]["string_value"]) / 1e3
        self.beta = float(of["beta_ms"]["string_value"]) / 1e3
        path = of["lock"]["string_value"]
        self.lock = open(path, "a") if path != "none" else None

    def execute(self, requests):
        span = self.alpha * len(requests) + self.beta
        if self.lock is None:
            time.sleep(span)
        else:
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            try:
                time.sleep(span)
            finally:
                fcntl.flock(self.lock, fcntl.LOCK_UN)
        return [pb.InferenceResponse([pb.Tensor("output", pb.get_input_tensor_by_name(r, "input").as_numpy())]) for r in requests]
