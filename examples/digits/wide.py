"""digits-wide: 34 MB of weights that no cache holds, so that batching pays.

    image*64, rounded -> linear 64..2048 -> linear ..2048 -> linear ..2048 -> linear ..10 -> softmax

The first layer and the last are trained; the two large ones between are random
and stay so. So 34 MB need not be committed: the Go program in wide/ writes the
ONNX file from the same random numbers and the trained layers (wide/trained.bin,
160 KB). Here is the network once more, in numpy, for training; train.py
demands that both agree.
"""

import numpy as np

import fit
from exact import activate, check_sums, quantise

INPUT_STEPS = 64
TOP = 63                    # activations: integers 0..63
WIDTH = 2048
MIDDLE_SEEDS = (1001, 1002)
MIDDLE_RANGE = 15           # random weights: integers -15..15 ...
MIDDLE_BITS = 8             # ... times 2^-8
FIRST_BITS = 8              # trained weights: integers -127..127 times 2^-bits
LAST_BITS = 14


def splitmix64(seed, count):
    """The first `count` outputs of splitmix64, which is counter-based."""
    u = np.uint64
    with np.errstate(over="ignore"):
        z = u(seed) + u(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> u(30))) * u(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> u(27))) * u(0x94D049BB133111EB)
    return z ^ (z >> u(31))


def integers(seed, shape, limit):
    """Uniform integers -limit..limit."""
    z = splitmix64(seed, int(np.prod(shape))) >> np.uint64(32)
    return ((z * np.uint64(2 * limit + 1)) >> np.uint64(32)).astype(np.int64).reshape(shape) - limit


class Wide:
    """Parameters by name, and their forward and backward passes."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        normal = lambda std, *shape: (rng.standard_normal(shape) * std).astype(np.float32)
        self.p = {
            "w1": normal(0.14, 64, WIDTH), "b1": np.zeros(WIDTH, np.float32),
            "w4": np.zeros((WIDTH, 10), np.float32), "b4": np.zeros(10, np.float32),
        }
        self.middle = [integers(s, (WIDTH, WIDTH), MIDDLE_RANGE).astype(np.float32) / 2**MIDDLE_BITS for s in MIDDLE_SEEDS]

    # The parameters move in these units, so that one rate fits all: a step of
    # Adam is about the rate, whatever the gradient's size.
    UNITS = {"w1": 1.0, "b1": 64.0, "w4": 8 / TOP, "b4": 8.0}

    def scaled(self):
        """Weights and biases as the ONNX file has them."""
        p = {k: v * np.float32(self.UNITS[k]) for k, v in self.p.items()}
        grid = lambda b, bits: np.round(b * 2**bits).astype(np.float32) / np.float32(2**bits)
        return {"w1": quantise(p["w1"], FIRST_BITS), "b1": grid(p["b1"], FIRST_BITS),
                "w4": quantise(p["w4"], LAST_BITS), "b4": grid(p["b4"], LAST_BITS)}

    def check(self):
        w = self.scaled()
        check_sums(w["w1"], 2.0**-FIRST_BITS, INPUT_STEPS, w["b1"])
        check_sums(w["w4"], 2.0**-LAST_BITS, TOP, w["b4"])
        for m in self.middle:
            check_sums(m, 2.0**-MIDDLE_BITS, TOP)

    def forward(self, x):
        """Logits of [n, 1, 8, 8], and what backward needs."""
        w = self.scaled()
        a = np.round(np.clip(x.reshape(len(x), -1) * np.float32(INPUT_STEPS), 0, INPUT_STEPS))
        kept = [a]
        for m, b in ((w["w1"], w["b1"]), (self.middle[0], 0), (self.middle[1], 0)):
            y = a @ m + b
            a = activate(y, TOP)
            kept.append((y > 0) & (y < TOP))
        return a @ w["w4"] + w["b4"], (*kept, a)

    def gradients(self, x, labels):
        """Loss (cross-entropy) and its gradients by name."""
        w = self.scaled()
        logits, (a0, in1, in2, in3, a3) = self.forward(x)
        loss, d = fit.cross_entropy(logits, labels)
        g = {"w4": a3.T @ d, "b4": d.sum(0)}
        d = ((d @ w["w4"].T * in3) @ self.middle[1].T * in2) @ self.middle[0].T * in1
        g |= {"w1": a0.T @ d, "b1": d.sum(0)}
        return loss, {k: v * np.float32(self.UNITS[k]) for k, v in g.items()}

    def save(self, path):
        """Integers, row by row: w1 (int8), b1 (int32), w4 (int8), b4 (int32)."""
        w, out = self.scaled(), b""
        for k, bits, kind in (("w1", FIRST_BITS, "i1"), ("b1", FIRST_BITS, "<i4"), ("w4", LAST_BITS, "i1"), ("b4", LAST_BITS, "<i4")):
            out += np.round(w[k].astype(np.float64) * 2**bits).astype(kind).tobytes()
        with open(path, "wb") as f:
            f.write(out)


def train(x, labels, epochs, seed):
    net = Wide(seed)
    fit.adam(net, x, labels, epochs, seed + 1, rate=1e-3, size=128)
    net.check()
    return net
