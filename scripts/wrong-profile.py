#!/usr/bin/env python3
"""What becomes of requests whose model has a wrong latency profile (backend/learn).

    scripts/wrong-profile.py bin/symphony [--trips 1000 | LOW-HIGH] [--rate 40] [--seconds 32] [--slo-ms 100] [--max-batch 4] [--times 1]

A Loop model whose trip count is an input is measured on zeros, as microseconds, and takes milliseconds. --times
multiplies what was measured, before the load begins: 100000 makes it far too long. Printed are the requests in time for
each two seconds, the share of those 10 to 30 s after the first one, and the profile before and after.
Needs Python's onnx and numpy, and ONNX Runtime where `make build` puts it. Listens on loopback.
"""
import argparse, http.client, json, os, random, signal, socket, subprocess, sys, tempfile, threading, time

DIM = 512


def model(repo, slo_ms, max_batch):
    import numpy as np
    import onnx
    from onnx import TensorProto as T, helper as h, numpy_helper as nh
    os.makedirs(repo + "/loop/1")
    value = h.make_tensor_value_info
    body = h.make_graph([h.make_node("Identity", ["c"], ["co"]), h.make_node("MatMul", ["v", "W"], ["vo"])], "body",
                        [value("i", T.INT64, []), value("c", T.BOOL, []), value("v", T.FLOAT, None)],
                        [value("co", T.BOOL, []), value("vo", T.FLOAT, None)])
    nodes = [h.make_node("ReduceMax", ["trips"], ["M"], keepdims=0), h.make_node("Loop", ["M", "cond", "x"], ["z"], body=body),
             h.make_node("ReduceMean", ["z"], ["m"], axes=[1])]
    graph = h.make_graph(nodes, "g", [value("x", T.FLOAT, ["b", DIM]), value("trips", T.INT64, ["b"])], [value("m", T.FLOAT, ["b", 1])],
                         [nh.from_array(np.eye(DIM, dtype=np.float32), "W"), nh.from_array(np.array(True), "cond")])
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    m.ir_version = 8
    onnx.save(m, repo + "/loop/1/model.onnx")
    with open(repo + "/loop/config.yaml", "w") as f:
        f.write(f"platform: onnxruntime\nslo: {slo_ms}ms\nmax_batch: {max_batch}\n"
                f"inputs: [{{name: x, type: FP32, shape: [{DIM}]}}, {{name: trips, type: INT64, shape: []}}]\n"
                "outputs: [{name: m, type: FP32, shape: [1]}]\n")


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, binary, work):
        self.http, self.args = port(), None
        conf = {"frontend": {"http": f"127.0.0.1:{self.http}", "grpc": f"127.0.0.1:{port()}"}, "admin": f"127.0.0.1:{port()}",
                "backend": {"repository": work + "/repo", "pools": [{"device_type": "cpu", "kind": "cpu", "devices": 1, "threads": 1}]}}
        with open(work + "/conf.yaml", "w") as f:
            json.dump(conf, f)
        self.log = open(work + "/log", "a")
        self.args = [binary, "serve", "--ephemeral", "--config", work + "/conf.yaml"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.args, stdout=self.log, stderr=self.log)
        for _ in range(600):
            try:
                c = http.client.HTTPConnection("127.0.0.1", self.http, timeout=2)
                c.request("GET", "/v2/models/loop/ready")
                if c.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        self.stop()
        sys.exit("the server is not ready: see " + self.log.name)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def load(http_port, a):
    low, high = (a.trips.split("-") + [a.trips])[:2]
    total, turn, lock, results = int(a.rate * a.seconds), iter(range(int(a.rate * a.seconds))), threading.Lock(), []
    begin = time.time()

    def client():
        conn = None
        while True:
            with lock:
                i = next(turn, None)
            if i is None:
                return
            time.sleep(max(0, begin + i / a.rate - time.time()))
            body = json.dumps({"inputs": [{"name": "x", "shape": [1, DIM], "datatype": "FP32", "data": [0.01] * DIM},
                                          {"name": "trips", "shape": [1], "datatype": "INT64", "data": [random.randint(int(low), int(high))]}]})
            sent, why = time.time(), ""
            try:
                conn = conn or http.client.HTTPConnection("127.0.0.1", http_port, timeout=10)
                conn.request("POST", "/v2/models/loop/infer", body, {"Content-Type": "application/json"})
                r = conn.getresponse()
                r.read()
                why = "" if r.status == 200 else f"{r.status} {r.getheader('X-Symphony-Reason')}"
            except OSError as e:
                conn, why = None, str(e)
            if not why and time.time() - sent > a.slo_ms / 1000:
                why = "late"
            with lock:
                results.append((i / a.rate, why))

    threads = [threading.Thread(target=client) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == total
    return results


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("--trips", default="1000")
    for name, default in ("rate", 40.0), ("seconds", 32.0), ("slo-ms", 100), ("max-batch", 4), ("times", 1.0):
        p.add_argument("--" + name, type=type(default), default=default)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        model(work + "/repo", a.slo_ms, a.max_batch)
        stored = work + "/repo/loop/profiles/cpu-v1.json"
        server = Server(a.binary, work)
        try:
            if a.times != 1:
                server.stop()
                with open(stored) as f:
                    doc = json.load(f)
                doc["profile"]["table_ns"] = [max(1, int(l * a.times)) for l in doc["profile"]["table_ns"]]
                with open(stored, "w") as f:
                    json.dump(doc, f)
                server.start()
            with open(stored) as f:
                print("before:", [f"{l / 1e6:.3f} ms" for l in json.load(f)["profile"]["table_ns"]])
            results = load(server.http, a)
        finally:
            server.stop()
        for second in range(0, int(a.seconds), 2):
            part = [why for at, why in results if second <= at < second + 2]
            lost = {why: part.count(why) for why in sorted(set(part)) if why}
            print(f"{second:4} s: {part.count('')} of {len(part)} in time {lost or ''}")
        part = [why for at, why in results if 10 <= at < 30]
        if part:
            print(f"10 to 30 s: {100 * part.count('') / len(part):.2f} % of {len(part)} in time")
        with open(stored) as f:
            doc = json.load(f)
        print("after: ", [f"{l / 1e6:.3f} ms" for l in doc["profile"]["table_ns"]], doc.get("learnt") or "as measured")
        with open(work + "/log") as f:
            print(sum("profile is corrected" in line for line in f), "corrections")


main()
