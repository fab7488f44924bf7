"""What both trainings share: warped copies of the images, and Adam."""

import numpy as np
from scipy import ndimage

COPIES = 15  # warped copies of each training image
ROTATE, SHIFT, SCALE, SHEAR = 15, 0.8, 0.15, 0.2  # degrees, pixels, shares: at most


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def cross_entropy(logits, labels):
    """Mean loss, and its gradient by the logits."""
    p, rows = softmax(logits), np.arange(len(labels))
    loss = -np.log(p[rows, labels] + 1e-9).mean()
    p[rows, labels] -= 1
    return loss, p / len(labels)


def warp(ink, rng):
    """Each image turned, moved, scaled and sheared a little: others' handwriting."""
    out, centre = np.empty(ink.shape), np.array([3.5, 3.5])
    for i, image in enumerate(ink):
        t = np.deg2rad(rng.uniform(-ROTATE, ROTATE))
        stretch = np.diag(1 + rng.uniform(-SCALE, SCALE, 2))
        stretch[0, 1] = rng.uniform(-SHEAR, SHEAR)
        m = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]) @ stretch
        offset = centre - m @ centre + rng.uniform(-SHIFT, SHIFT, 2)
        out[i] = ndimage.affine_transform(image.astype(np.float64), m, offset, order=1)
    return np.clip(out, 0, 16)


def augment(ink, labels, seed):
    """The images and their warped copies."""
    rng = np.random.default_rng(seed)
    return np.concatenate([ink, *(warp(ink, rng) for _ in range(COPIES))]), np.tile(labels, COPIES + 1)


def adam(net, x, labels, epochs, seed, rate, size=64):
    """Trains net.p, a dict of arrays, in place; the rate falls as a cosine."""
    rng = np.random.default_rng(seed)
    m = {k: np.zeros_like(v) for k, v in net.p.items()}
    v = {k: np.zeros_like(u) for k, u in net.p.items()}
    step, batches = 0, len(x) // size
    for epoch in range(epochs):
        order, total = rng.permutation(len(x)), 0.0
        for part in order[:batches * size].reshape(batches, size):
            loss, g = net.gradients(x[part], labels[part])
            step, total = step + 1, total + loss
            now = rate * 0.5 * (1 + np.cos(np.pi * step / (epochs * batches)))
            for k in net.p:
                m[k] = 0.9 * m[k] + 0.1 * g[k]
                v[k] = 0.999 * v[k] + 0.001 * g[k] ** 2
                change = m[k] / (1 - 0.9**step) / (np.sqrt(v[k] / (1 - 0.999**step)) + 1e-8)
                net.p[k] -= (now * change).astype(np.float32)
        print(f"  epoch {epoch + 1:2d} of {epochs}: loss {total / batches:.4f}", flush=True)
