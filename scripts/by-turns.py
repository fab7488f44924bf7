#!/usr/bin/env python3
"""Compare two binaries of Symphony: does a change cost ordinary traffic anything?

    scripts/by-turns.py OLD NEW [--rounds N] [--only http,overhead,cores]

Each round runs every benchmark with both binaries, in changing order, so that what else the
host does meets both alike. The table has the ratio new to old, where more is better, of the
two medians, and the least and greatest ratio of a round. Nothing is asserted.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys


def run(binary, *args):
    done = subprocess.run([binary, "bench", *args], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{binary} bench {' '.join(args)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def http(binary):
    """Requests/s of the ingress, for binary and JSON bodies."""
    ways = json.loads(run(binary, "http", "--rounds", "2", "--span", "700ms", "--quiet", "--json", "-"))["Ways"]
    return {f"http {w['Name']}, requests/s": w["Rate"]["Median"] for w in ways if w["Server"] == "infer"}


def overhead(binary):
    """A request's own time in the system at half of 10,000 requests/s, as its inverse."""
    out = {}
    for links in ("tcp", "inproc"):
        text = run(binary, "overhead", "--links", links, "--rate", "10000", "--loads", "50", "--duration", "2s")
        p50 = float(re.search(r"all of ours\s+([\d.]+)", text).group(1))
        out[f"overhead {links}, 1/p50 of all of ours"] = 1 / p50
    return out


def cores(binary):
    """Requests/s of the scheduler's bare cores: a candidate each request, and each turn."""
    took = re.findall(r"timed as a whole\s+([\d.]+)", run(binary, "scheduler", "--cores"))
    names = ("a candidate each request", "a candidate each turn")
    return {f"cores, {n}": 1 / float(t) for n, t in zip(names, took)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="http,overhead,cores")
    o = parser.parse_args()
    benches = [{"http": http, "overhead": overhead, "cores": cores}[name] for name in o.only.split(",")]
    seen = {}
    for r in range(o.rounds):
        for bench in benches:
            turn = {}
            for which in (("old", "new"), ("new", "old"))[r % 2]:
                turn[which] = bench(getattr(o, which))
            for name, old in turn["old"].items():
                seen.setdefault(name, []).append((old, turn["new"][name]))
    print(f"new / old, {o.rounds} rounds by turns; more is better")
    for name, pairs in seen.items():
        ratio = statistics.median(n for _, n in pairs) / statistics.median(p for p, _ in pairs)
        each = [n / p for p, n in pairs]
        print(f"{name:40} {ratio:6.3f}   rounds {min(each):.3f} to {max(each):.3f}, median of ratios {statistics.median(each):.3f}")


if __name__ == "__main__":
    main()
