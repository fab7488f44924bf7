"""The rows of the table of clients: what was tried, whether it worked, and what there is to say of it.

A script of one client makes rows with check, and hands them in with report, which appends them to the
file that CLIENTS_ROWS names; table.py prints all. A check fails by an exception.
"""
import asyncio
import os
import subprocess
import traceback

import numpy as np

rows = []


def check(name):
    """Runs the function at once, or the coroutine that it returns; what comes out is the row's note."""
    def run(f):
        try:
            note = f()
            if asyncio.iscoroutine(note):
                note = asyncio.run(note)
            rows.append((name, True, note or ""))
        except Exception as e:  # each check stands for itself
            traceback.print_exc()
            rows.append((name, False, repr(e)))
    return run


def report(client):
    """Hands in the rows as those of a client."""
    with open(os.environ["CLIENTS_ROWS"], "a") as f:
        for name, ok, note in rows:
            f.write("\t".join((client, name, "ok" if ok else "FAILED", " ".join(note.split())[-300:])) + "\n")


def data(items=1, seed=0):
    """An input of the model: FP32 [items, 8], each item another one."""
    return (np.arange(8 * items, dtype=np.float32).reshape(items, 8) + 1) * (1 + seed)


def same(got, want):
    """The emulated device answers with its input: a mixed-up or cut tensor is another one."""
    assert got is not None, "no output"
    got = np.asarray(got)
    assert got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want), (got, want)


def said(command, timeout=600, status=0):
    """What a program says on stdout; it must end with the status, within the seconds."""
    r = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if r.returncode != status:
        raise AssertionError(f"status {r.returncode}: {(r.stderr + r.stdout).strip()[-1500:]}")
    return r.stdout
