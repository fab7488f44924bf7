"""Arithmetic without rounding error, in floats.

Weights and activations are small integers times a power of two. Their
products and sums then fit the 24 bits of a float32's significand, so a sum is
the same in whatever order it is made: one image gives the same bits alone and
in a batch of 16, with every kernel and on every machine. (Softmax, the last
step, is an approximation, but of one row at a time.)
"""

import numpy as np

WEIGHT_MAX = 127  # 8-bit weights
SIGNIFICAND = 1 << 24


def quantise(w, bits):
    """w to the grid 2^-bits, at most WEIGHT_MAX steps from 0."""
    step = np.float32(2.0**-bits)
    return np.clip(np.round(w / step), -WEIGHT_MAX, WEIGHT_MAX).astype(np.float32) * step


def activate(y, top):
    """Clipped ReLU to the integers 0..top. Rounds halves to even, like ONNX."""
    return np.round(np.clip(y, 0, top))


def check_sums(w, step, input_max, bias=0):
    """Asserts that sums over the first axis of w, times inputs, are exact."""
    steps = np.abs(np.asarray(w, np.float64) / step).sum(axis=0).max() * input_max
    worst = steps + np.abs(np.asarray(bias, np.float64) / step).max()
    assert worst < SIGNIFICAND, f"sums reach {worst:.0f} steps, exact below {SIGNIFICAND}"
