"""The digits, their split, and the way a picture takes to the model's input.

scikit-learn carries 1,797 scans of handwritten digits (UCI, "Optical
Recognition of Handwritten Digits"): 8x8 pixels, ink 0..16. A quarter of them
is held out, by a fixed seed and with every digit in proportion. Nothing in
training, nor any choice about it, looks at the held-out part.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SPLIT_SEED = 2026
HELD_OUT = 0.25
ENLARGE = 8  # pictures are written at 64x64, so that people can see them


def split():
    """((images, labels) to train on, (images, labels) held out); ink 0..16."""
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    a, b, ya, yb = train_test_split(
        images, digits.target, test_size=HELD_OUT, random_state=SPLIT_SEED, stratify=digits.target
    )
    return (a, ya), (b, yb)


def pixels(ink):
    """Ink 0..16 as grey 0..255: light ink on black."""
    return np.round(ink.astype(np.float64) * 255 / 16).astype(np.uint8)


def enlarge(grey):
    """Every pixel becomes a square of ENLARGE x ENLARGE."""
    return grey.repeat(ENLARGE, axis=-1).repeat(ENLARGE, axis=-2)


def _triangle(source, size):
    """Weights of one axis: bilinear, widened so that every pixel counts."""
    scale = source / size
    centre = (np.arange(size)[:, None] + 0.5) * scale - 0.5
    w = np.maximum(0, 1 - np.abs(centre - np.arange(source)) / scale)
    return w / w.sum(axis=1, keepdims=True)


def shrink(grey, size=8):
    """What frontend/preprocess makes of a larger picture: it blurs a little."""
    rows, columns = _triangle(grey.shape[-2], size), _triangle(grey.shape[-1], size)
    out = np.einsum("ij,njk,lk->nil", rows, grey.astype(np.float64), columns)
    return np.floor(out + 1e-6).astype(np.uint8)


def tensor(grey):
    """Grey 8x8 as the models' input: FP32 [n, 1, 8, 8], 0..1."""
    return (grey.astype(np.float32) * np.float32(1 / 255))[:, None]


def both(ink, labels):
    """Each image twice: pixel by pixel, and through an enlarged picture."""
    grey = pixels(ink)
    x = np.concatenate([tensor(grey), tensor(shrink(enlarge(grey)))])
    return x, np.concatenate([labels, labels])


def first_of_each(labels, count=2):
    """Indices of the first `count` of every digit, in held-out order."""
    return [int(i) for digit in range(10) for i in np.flatnonzero(labels == digit)[:count]]
