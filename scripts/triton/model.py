"""What the compared models compute, for Triton's Python backend; Symphony runs ONNX files that say the same.

The model's parameter "op": add (SUM = A + B, DIFF = A - B), identity (each input is the output of its
place), or slow (identity, after "ms" milliseconds).
"""
import json
import time

import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        of = {key: value["string_value"] for key, value in config["parameters"].items()}
        self.op, self.span = of["op"], float(of.get("ms", 0)) / 1e3
        self.pairs = [(i["name"], o["name"], o["data_type"]) for i, o in zip(config["input"], config["output"])]

    def execute(self, requests):
        time.sleep(self.span)
        return [pb.InferenceResponse(self.outputs(r)) for r in requests]

    def outputs(self, request):
        if self.op == "add":
            a, b = (pb.get_input_tensor_by_name(request, name).as_numpy() for name in ("A", "B"))
            return [pb.Tensor("SUM", a + b), pb.Tensor("DIFF", a - b)]
        return [self.same(pb.get_input_tensor_by_name(request, i), o, kind) for i, o, kind in self.pairs]

    def same(self, tensor, name, kind):
        if kind == "TYPE_BF16":  # numpy has no such type
            return pb.Tensor.from_dlpack(name, tensor.to_dlpack())
        return pb.Tensor(name, tensor.as_numpy())
