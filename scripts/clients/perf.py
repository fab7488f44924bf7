"""perf_analyzer against a running Symphony, unmodified, over HTTP and gRPC.

    python perf.py PERF_ANALYZER HTTP_HOST:PORT GRPC_HOST:PORT MODEL BETA_MS FOLDER

It ends at the first request that fails, compares each output with what is expected, and refuses
statistics of the server that do not fit together. So a row that is ok is a run in which all requests
were served, each with its own output. BETA_MS is what the model's shortest batch takes: the server's
statistics must not tell less. PERF_SECONDS (60) is how long the long runs are. The CSV files and what was
printed are kept in FOLDER.
"""
import csv
import json
import os
import re
import subprocess
import sys
import urllib.request

from rows import check, report

BINARY, HTTP, GRPC, MODEL, BETA, FOLDER = sys.argv[1:7]
SECONDS = int(os.environ.get("PERF_SECONDS", "60"))
RATE = int(os.environ.get("PERF_RATE", "200"))  # of the long runs, requests/s
WINDOWS = 3  # it takes so many that agree; with 999 % all do

os.makedirs(FOLDER, exist_ok=True)
one = [0.5 + k for k in range(8)]


def input_file(name, **more):
    path = os.path.join(FOLDER, name)
    with open(path, "w") as f:
        json.dump({"data": [{"input": one}], **more}, f)
    return "--input-data", path


both = input_file("input.json", validation_data=[{"output": one}])  # an emulated device answers with its input
unseen = input_file("unseen.json")  # of several items it compares the first with all: the outputs are not looked at


def failures():
    """How many requests the server says to have failed."""
    with urllib.request.urlopen(f"http://{HTTP}/v2/models/{MODEL}/stats") as r:
        return json.load(r)["model_stats"][0]["inference_stats"]["fail"]["count"]


def perf(label, protocol, *options, window=2, steps=1):
    """One run; of each step of its range a dict of the CSV's columns."""
    path = os.path.join(FOLDER, "-".join((protocol, *label.split())) + ".csv")
    if os.path.exists(path):
        os.remove(path)
    command = [BINARY, "-m", MODEL, "-i", protocol, "-u", HTTP if protocol == "http" else GRPC,
               "--measurement-interval", str(window * 1000), "--stability-percentage", "999", "--max-trials", str(WINDOWS),
               "--verbose-csv", "-f", path, *options]
    before = failures()
    r = subprocess.run(command, capture_output=True, text=True, timeout=120 + 3 * steps * (WINDOWS + 1) * window)
    said = r.stdout + r.stderr
    with open(path[:-4] + ".txt", "w") as f:
        f.write(" ".join(command) + "\n" + said)
    assert r.returncode == 0, f"status {r.returncode}: {said.strip()[-1500:]}"
    bad = re.findall(r".*(?:[Ff]ailed|[Ee]rror).*", said)  # that it lags behind its own rate is no failure
    assert not bad, bad
    assert failures() == before, f"{failures() - before} requests failed, says the server"
    with open(path) as f:
        found = list(csv.DictReader(f))
    assert len(found) == steps, (len(found), steps)
    return served(found, said)


def served(found, said):
    """Each step has inferences, and statistics of the server that can be true."""
    counts = re.findall(r"Server: *\n *Inference count: (\d+)\n *Execution count: (\d+)\n *Successful request count: (\d+)", said)
    assert len(counts) == len(found), said[-1500:]
    for step, (items, batches, requests) in zip(found, counts):
        assert int(items) >= int(batches) > 0 and int(items) >= int(requests) > 0, (items, batches, requests)
        assert float(step["Inferences/Second"]) > 0, step
        for column in ("Server Queue", "Server Compute Input", "Server Compute Infer", "Server Compute Output"):
            float(step[column])
        assert float(step["Server Compute Infer"]) >= float(BETA) * 1000, step
    return found


def tell(found):
    return ", ".join(f"{float(s['Inferences/Second']):.0f}/s p99 {float(s['p99 latency']) / 1000:.1f} ms" for s in found)


for p in ("http", "grpc"):
    @check(f"{p}: 1, 3 and 5 at a time")
    def _():
        return tell(perf("concurrency", p, *both, "--concurrency-range", "1:5:2", steps=3))

    @check(f"{p}: 50, 100 and 150 requests/s")
    def _():
        found = perf("rates", p, *both, "--request-rate-range", "50:150:50", steps=3)
        assert [float(s["Request Rate"]) for s in found] == [50, 100, 150], found
        return tell(found)

    @check(f"{p}: 16 at a time, asynchronous")
    def _():
        return tell(perf("async", p, *both, "--async", "--concurrency-range", "16"))

    @check(f"{p}: 4 items a request")
    def _():
        return tell(perf("items", p, *unseen, "-b", "4", "--concurrency-range", "4"))

    @check(f"{p}: in and out by system shared memory")
    def _():
        return tell(perf("memory", p, "--shared-memory", "system", "--output-shared-memory-size", "4096", "--concurrency-range", "4"))


@check("http: tensors as JSON")
def _():
    return tell(perf("json", "http", *both, "--input-tensor-format", "json", "--output-tensor-format", "json", "--concurrency-range", "4"))


@check("grpc: by streams")
def _():
    return tell(perf("stream", "grpc", *both, "--streaming", "--concurrency-range", "4"))


@check("grpc: compressed")
def _():
    return tell(perf("gzip", "grpc", *both, "--grpc-compression-algorithm", "gzip", "--concurrency-range", "4"))


for p in ("http", "grpc"):
    @check(f"{p}: {SECONDS} s of {RATE} requests/s, Poisson")
    def _():
        window = max(1, SECONDS // WINDOWS)
        found = perf("long", p, *both, "--request-rate-range", str(RATE), "--request-distribution", "poisson", window=window)
        assert float(found[0]["Inferences/Second"]) > RATE / 2, found
        return tell(found)

report("perf_analyzer")
