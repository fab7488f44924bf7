"""Gives Python's onnxruntime the inputs that `go run ./examples/zoo/check` left, and
compares its outputs with those of our CPU device.

    python check.py [build/zoo-check]
"""

import json
import os
import pathlib
import sys

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when it is imported
import onnxruntime  # noqa: E402

TYPES = {"FP32": np.float32, "INT64": np.int64}


def tensors(data, specs, items):
    """The tensors of items that lie one after the other, as slabs have them."""
    record = np.dtype([(s["name"], TYPES[s["type"]], tuple(s["shape"])) for s in specs])
    table = np.frombuffer(data, record)
    assert len(table) == items, f"{len(table)} items, want {items}"
    return {s["name"]: np.ascontiguousarray(table[s["name"]]) for s in specs}


def check(folder, model):
    """Whether the model's outputs agree."""
    inputs = tensors((folder / model["name"] / "inputs.bin").read_bytes(), model["inputs"], model["items"])
    ours = tensors((folder / model["name"] / "outputs.bin").read_bytes(), model["outputs"], model["items"])
    session = onnxruntime.InferenceSession(model["model"], providers=["CPUExecutionProvider"])
    absolute = relative = 0.0
    for name, theirs in zip(ours, session.run(list(ours), inputs)):
        for got, want in zip(ours[name].astype(np.float64), theirs.astype(np.float64)):
            if not (np.isfinite(got).all() and np.isfinite(want).all()):
                print(f"{model['name']}: {name} is not finite")
                return False
            absolute = max(absolute, float(np.abs(got - want).max()))
            relative = max(relative, float(np.abs(got - want).max() / np.abs(want).max()))
    print(f"{model['name']:16} device against Python: largest difference {absolute:.2g}, "
          f"of the largest output {relative:.2g} (tolerated {model['tolerance']:.0e})")
    return relative <= model["tolerance"]


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/zoo-check")
    models = json.loads((folder / "manifest.json").read_text())
    if not models:
        sys.exit("no model in the manifest")
    print(f"Python's onnxruntime {onnxruntime.__version__}")
    wrong = [m["name"] for m in models if not check(folder, m)]
    if wrong:
        sys.exit(f"outputs differ: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
