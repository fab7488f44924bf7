"""digits-cnn: a small convolutional network, in numpy, trained as it is served.

    image*64, rounded -> conv 3x3 (16) -> pool 2 -> conv 3x3 (32) -> pool 2 -> linear -> softmax

Forward passes use the rounded weights and activations of exact.py; gradients
pass through the rounding as if it were not there (straight-through).
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import fit
from exact import activate, check_sums, quantise

INPUT_STEPS = 64  # input 0..1 in steps of 1/64
TOP = 255         # activations: 0..255 sixteenths
WEIGHT_BITS = 6
BIAS_BITS = (8, 6, 10)  # of each layer's sums, as they are in the ONNX file


class CNN:
    """Parameters by name, and their forward and backward passes."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        normal = lambda fan, *shape: (rng.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32)
        self.p = {
            "w1": normal(9, 9, 16), "b1": np.zeros(16, np.float32),
            "w2": normal(144, 144, 32), "b2": np.zeros(32, np.float32),
            "w3": normal(128, 128, 10), "b3": np.zeros(10, np.float32),
        }

    def scaled(self):
        """Weights and biases as the ONNX file has them: sums in sixteenths."""
        q = {k: quantise(self.p[k], WEIGHT_BITS) for k in ("w1", "w2", "w3")}
        w = {"w1": q["w1"] * np.float32(16 / INPUT_STEPS), "w2": q["w2"], "w3": q["w3"] / np.float32(16)}
        for i, bits in enumerate(BIAS_BITS, 1):
            unit = np.float32(1 if i == 3 else 16)
            w[f"b{i}"] = np.round(self.p[f"b{i}"] * unit * 2**bits).astype(np.float32) / np.float32(2**bits)
        return w

    def check(self):
        w = self.scaled()
        for i, input_max in ((1, INPUT_STEPS), (2, TOP), (3, TOP)):
            check_sums(w[f"w{i}"], 2.0 ** -BIAS_BITS[i - 1], input_max, w[f"b{i}"])

    def forward(self, x):
        """Logits of [n, 1, 8, 8], and what backward needs."""
        w, kept = self.scaled(), {}
        a = np.round(np.clip(x * np.float32(INPUT_STEPS), 0, INPUT_STEPS)).transpose(0, 2, 3, 1)
        for i in (1, 2):
            columns = patches(a)
            y = columns @ w[f"w{i}"] + w[f"b{i}"]
            act = activate(y, TOP)
            a, where = pool(act)
            kept[i] = (columns, (y > 0) & (y < TOP), where)
        # The channel is the outer axis in ONNX's Flatten.
        flat = a.transpose(0, 3, 1, 2).reshape(len(x), -1)
        kept[3] = flat
        return flat @ w["w3"] + w["b3"], kept

    def gradients(self, x, labels):
        """Loss (cross-entropy) and its gradients by name."""
        logits, kept = self.forward(x)
        loss, d = fit.cross_entropy(logits, labels)
        g, n, w = {}, len(x), self.scaled()
        g["w3"], g["b3"] = kept[3].T @ d / 16, d.sum(0)
        d = (d @ w["w3"].T).reshape(n, 32, 2, 2).transpose(0, 2, 3, 1)
        for i in (2, 1):
            columns, inside, where = kept[i]
            d = unpool(d, where) * inside
            # d is by sixteenths: a step of a parameter moves 16 of them.
            unit = np.float32(16 / INPUT_STEPS if i == 1 else 1)
            g[f"w{i}"] = np.tensordot(columns, d, ((0, 1, 2), (0, 1, 2))) * unit
            g[f"b{i}"] = d.sum((0, 1, 2)) * 16
            if i == 2:
                d = unpatch(d @ w["w2"].T, 16)
        return loss, g


def patches(a):
    """[n, h, w, c] -> [n, h, w, 9c]: the 3x3 neighbours of each pixel, 0 outside."""
    n, h, w, c = a.shape
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return np.concatenate([padded[:, y:y + h, x:x + w] for y in range(3) for x in range(3)], axis=3)


def unpatch(d, channels):
    """Adjoint of patches."""
    n, h, w, _ = d.shape
    out = np.zeros((n, h + 2, w + 2, channels), np.float32)
    for i in range(9):
        out[:, i // 3:i // 3 + h, i % 3:i % 3 + w] += d[..., i * channels:(i + 1) * channels]
    return out[:, 1:-1, 1:-1]


def pool(a):
    """2x2 maxima, and a mask that shares the gradient among equal ones."""
    n, h, w, c = a.shape
    tiles = a.reshape(n, h // 2, 2, w // 2, 2, c)
    top = tiles.max(axis=(2, 4), keepdims=True)
    mask = (tiles == top).astype(np.float32)
    return top[:, :, 0, :, 0], mask / mask.sum(axis=(2, 4), keepdims=True)


def unpool(d, where):
    n, h, _, w, _, c = where.shape
    return (where * d[:, :, None, :, None]).reshape(n, 2 * h, 2 * w, c)


def train(x, labels, epochs, seed):
    net = CNN(seed)
    fit.adam(net, x, labels, epochs, seed + 1, rate=3e-3)
    net.check()
    return net


def export(net, path):
    """Writes the ONNX file: opset 17, first dimension N left open."""
    w = net.scaled()
    conv = lambda a, c: a.reshape(3, 3, c, -1).transpose(3, 2, 0, 1).copy()
    values = {
        "steps": np.float32(INPUT_STEPS), "zero": np.float32(0), "top": np.float32(TOP),
        "w1": conv(w["w1"], 1), "b1": w["b1"], "w2": conv(w["w2"], 16), "b2": w["b2"], "w3": w["w3"], "b3": w["b3"],
    }
    node = helper.make_node
    nodes = [node("Mul", ["image", "steps"], ["scaled"]), node("Clip", ["scaled", "zero", "steps"], ["clipped"]),
             node("Round", ["clipped"], ["x1"])]
    for i in (1, 2):
        nodes += [
            node("Conv", [f"x{i}", f"w{i}", f"b{i}"], [f"y{i}"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("Clip", [f"y{i}", "zero", "top"], [f"c{i}"]), node("Round", [f"c{i}"], [f"a{i}"]),
            node("MaxPool", [f"a{i}"], [f"x{i + 1}"], kernel_shape=[2, 2], strides=[2, 2]),
        ]
    nodes += [node("Flatten", ["x3"], ["flat"]), node("Gemm", ["flat", "w3", "b3"], ["logits"]),
              node("Softmax", ["logits"], ["probabilities"], axis=-1)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "digits-cnn", [info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [info("probabilities", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="symphony-digits")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
