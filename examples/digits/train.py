"""Trains both models and writes the sample pictures, all from fixed seeds.

    python -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python train.py

Needs Go on the PATH too: wide/ writes the wide model's ONNX file.
"""

import csv
import pathlib
import struct
import subprocess
import zlib

import numpy as np

import cnn
import data
import evaluate
import fit
import wide

HERE = pathlib.Path(__file__).resolve().parent
SEED = 1
EPOCHS_CNN, EPOCHS_WIDE = 10, 5  # not cross-validated as such: see README.md, "Held out"


def png(grey):
    """An 8-bit grey PNG; small enough to write by hand."""
    height, width = grey.shape
    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def write_samples(ink, labels):
    """The first two of each digit, in held-out order, whatever a model says."""
    folder = HERE / "images"
    folder.mkdir(exist_ok=True)
    rows, seen = [], {}
    for i in data.first_of_each(labels):
        digit = int(labels[i])
        seen[digit] = seen.get(digit, 0) + 1
        name = f"{digit}-{seen[digit]}.png"
        (folder / name).write_bytes(png(data.enlarge(data.pixels(ink[i]))))
        rows.append((name, digit))
    with open(folder / "labels.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(("file", "label"))
        out.writerows(rows)


def check_exact(name, net, ink):
    """numpy and ONNX Runtime give the same logits, so the same probabilities
    but for the exponential's last bits."""
    x = data.tensor(data.pixels(ink))
    difference = np.abs(fit.softmax(net.forward(x)[0]) - evaluate.run(evaluate.session(name), x)).max()
    assert difference < 1e-6, f"{name}: ONNX differs from numpy by {difference}"


def main():
    (ink, labels), (held_ink, held_labels) = data.split()
    x, y = data.both(*fit.augment(ink, labels, SEED))
    write_samples(held_ink, held_labels)

    print("digits-cnn")
    net = cnn.train(x, y, EPOCHS_CNN, SEED)
    cnn.export(net, HERE / "models" / "digits-cnn" / "1" / "model.onnx")
    check_exact("digits-cnn", net, ink)

    print("digits-wide")
    net = wide.train(x, y, EPOCHS_WIDE, SEED)
    net.save(HERE / "wide" / "trained.bin")
    subprocess.run(["go", "run", "./wide", "-pin"], cwd=HERE, check=True)
    check_exact("digits-wide", net, ink)

    evaluate.main()


if __name__ == "__main__":
    main()
