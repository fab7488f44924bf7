"""grpcurl, ghz and k6 against a running Symphony, unmodified.

    python tools.py TOOL PROGRAM HTTP_HOST:PORT GRPC_HOST:PORT MODEL FOLDER
"""
import base64
import json
import os
import subprocess
import sys

import numpy as np

from rows import check, data, report, said, same

TOOL, PROGRAM, HTTP, GRPC, MODEL, FOLDER = sys.argv[1:7]
CALL = "inference.GRPCInferenceService.ModelInfer"
QUERY = {"model_name": MODEL, "inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 8], "contents": {"fp32_contents": data()[0].tolist()}}]}


def grpcurl():
    def ask(method, query=None):
        return said([PROGRAM, "-plaintext", *(["-d", json.dumps(query)] if query else []), GRPC, *method.split()])

    @check("services and messages, by reflection")
    def _():
        services = ask("list").split()
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(services), services
        assert "rpc ModelInfer " in ask("describe inference.GRPCInferenceService")

    @check("health")
    def _():
        assert json.loads(ask("grpc.health.v1.Health/Check", {"service": MODEL})) == {"status": "SERVING"}

    @check("an inference")
    def _():
        r = json.loads(ask("inference.GRPCInferenceService/ModelInfer", QUERY))
        same(np.frombuffer(base64.b64decode(r["rawOutputContents"][0]), np.float32), data()[0])

    @check("a refusal")
    def _():
        r = subprocess.run([PROGRAM, "-plaintext", "-d", json.dumps(dict(QUERY, model_name="nobody")), GRPC, CALL], capture_output=True, text=True, timeout=60)
        assert r.returncode != 0 and "NotFound" in r.stderr, r


def ghz():
    def load(n, *options):
        r = json.loads(said([PROGRAM, "--insecure", "--call", CALL, "-d", json.dumps(QUERY), "-n", str(n), "-O", "json", *options, GRPC]))
        assert r["count"] == n and r["statusCodeDistribution"] == {"OK": n} and not r.get("errorDistribution"), {k: r.get(k) for k in ("count", "statusCodeDistribution", "errorDistribution")}
        return f"{r['rps']:.0f}/s"

    @check("2,000 inferences, 20 at a time")
    def _():
        return load(2000, "-c", "20")

    @check("1,000 inferences, 200/s, over 4 connections")
    def _():
        return load(1000, "-c", "20", "--rps", "200", "--connections", "4")


def k6():
    here = os.path.dirname(os.path.abspath(__file__))

    def run(what, model, status=0):
        summary = os.path.join(FOLDER, f"k6-{what}.json")
        if os.path.exists(summary):
            os.remove(summary)
        env = {"HTTP": HTTP, "GRPC": GRPC, "MODEL": model, "WHAT": what, "SUMMARY": summary}
        said([PROGRAM, "run", "--quiet", "--no-usage-report", *[a for k, v in env.items() for a in ("-e", f"{k}={v}")], os.path.join(here, "k6.js")], status=status)
        return json.load(open(summary))["metrics"]

    for what in ("http", "grpc", "stream"):
        @check(f"{what}: 1,000 iterations by 10 users, each output looked at")
        def _():
            m = run(what, MODEL)
            assert m["iterations"]["values"]["count"] == 1000 and m["checks"]["values"]["fails"] == 0 and m["checks"]["values"]["passes"] >= 1000, m
            return f"{m['iterations']['values']['rate']:.0f}/s"

        @check(f"{what}: its thresholds fail where no model is")
        def _():
            m = run(what, "nobody", status=99)  # k6's status where thresholds are crossed
            assert m["checks"]["values"]["passes"] == 0, m["checks"]


{"grpcurl": grpcurl, "ghz": ghz, "k6": k6}[TOOL]()
report(TOOL)
