"""Measures the models with ONNX Runtime: accuracy on the held-out images,
latency over batch sizes, and that an answer does not depend on its batch.

    python evaluate.py [--latency]
"""

import csv
import os
import pathlib
import sys
import time

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when it is imported
import onnxruntime  # noqa: E402

import data

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ("digits-cnn", "digits-wide")
BATCHES = (1, 2, 4, 8, 16)


def session(name):
    """The model on one thread, as the quickstart serves it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = HERE / "models" / name / "1" / "model.onnx"
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(s, x):
    return s.run(["probabilities"], {"image": x})[0]


def accuracy(s, ink, labels):
    """(8x8 pixels, 64x64 pictures shrunk by preprocessing): share of right answers."""
    grey = data.pixels(ink)
    ways = data.tensor(grey), data.tensor(data.shrink(data.enlarge(grey)))
    return [float((run(s, x).argmax(1) == labels).mean()) for x in ways]


def samples(s, ink, labels):
    """How many of the sample pictures (images/labels.csv) are right."""
    pick = data.first_of_each(labels)
    with open(HERE / "images" / "labels.csv", newline="") as f:
        assert [int(row["label"]) for row in csv.DictReader(f)] == [int(labels[i]) for i in pick]
    p = run(s, data.tensor(data.shrink(data.enlarge(data.pixels(ink[pick])))))
    return int((p.argmax(1) == labels[pick]).sum()), len(pick)


def same_in_any_batch(s, ink):
    """Largest difference between answers alone and in batches."""
    x = data.tensor(data.pixels(ink[:96]))
    alone = np.concatenate([run(s, x[i:i + 1]) for i in range(len(x))])
    together = [np.concatenate([run(s, x[i:i + b]) for i in range(0, len(x), b)]) for b in BATCHES[1:]]
    return max(float(np.abs(t - alone).max()) for t in together)


def latency(s, repeats=200):
    """Median milliseconds by batch size, and the line through them."""
    median = {}
    for b in BATCHES:
        x = np.random.default_rng(b).random((b, 1, 8, 8), dtype=np.float32)
        spans = []
        for _ in range(repeats):
            start = time.perf_counter()
            run(s, x)
            spans.append(time.perf_counter() - start)
        median[b] = float(np.median(spans)) * 1e3
    alpha, beta = np.polyfit(list(median), list(median.values()), 1)
    return median, alpha, beta


def main():
    _, (ink, labels) = data.split()
    print(f"{len(labels)} held-out images, ONNX Runtime {onnxruntime.__version__}, one thread")
    for name in MODELS:
        s = session(name)
        direct, picture = accuracy(s, ink, labels)
        right, count = samples(s, ink, labels)
        print(f"{name}: accuracy {direct:.4f} (8x8 pixels), {picture:.4f} (64x64 pictures); "
              f"samples {right} of {count}; difference alone to batch {same_in_any_batch(s, ink)}")
        if "--latency" in sys.argv[1:]:
            median, alpha, beta = latency(s)
            table = ", ".join(f"{b}: {ms:.3f}" for b, ms in median.items())
            print(f"  ms by batch size {{{table}}}; alpha {alpha:.3f} ms, beta {beta:.3f} ms, beta/alpha {beta / alpha:.1f}")


if __name__ == "__main__":
    main()
