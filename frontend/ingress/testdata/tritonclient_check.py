"""Runs the real tritonclient against an ingress over the tests' fake frontend.

usage: tritonclient_check.py HOST:PORT   (pip install "tritonclient[http]" numpy)

The models echo-<TYPE> return their input x of shape [-1,2,3] as y; "two" has
two inputs; "digits" gives three logits. Every line printed is a check passed.
"""
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

address = sys.argv[1]
client = triton.InferenceServerClient(address)
rng = np.random.default_rng(7)


def passed(what):
    print("ok", what)


def refused(what, status, text, call):
    try:
        call()
    except InferenceServerException as e:
        assert e.status() == str(status), (what, e.status(), e)
        assert text in e.message(), (what, e.message())
        passed(what)
        return
    raise AssertionError(what + " was not refused")


def describe():
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "1")
    assert not client.is_model_ready("nobody")
    passed("health")
    meta = client.get_server_metadata()
    assert meta["name"] == "symphony" and "binary_tensor_data" in meta["extensions"]
    m = client.get_model_metadata("digits")
    assert m["inputs"][0]["shape"] == [-1, 784] and m["outputs"][0]["datatype"] == "FP32"
    assert client.get_model_metadata("two", "0")["name"] == "two"
    c = client.get_model_config("digits")
    assert c["max_batch_size"] == 8 and c["input"][0]["data_type"] == "TYPE_FP32" and c["input"][0]["dims"] == [784]
    passed("metadata and config")
    index = client.get_model_repository_index()
    assert {"digits", "two"} <= {e["name"] for e in index}
    client.load_model("digits")
    refused("unload", 501, "digits", lambda: client.unload_model("digits"))
    refused("load of an unknown model", 400, "nobody", lambda: client.load_model("nobody"))
    assert client.get_log_settings()["log_info"] is True
    assert client.get_trace_settings()["trace_level"] == ["OFF"]
    refused("log settings", 501, "configuration", lambda: client.update_log_settings({"log_verbose_level": 1}))
    assert client.get_system_shared_memory_status() == []
    assert client.get_cuda_shared_memory_status() == []
    client.unregister_system_shared_memory()
    passed("repository, settings, shared memory")


def sample(dtype, n):
    shape = (n, 2, 3)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if np.issubdtype(dtype, np.floating):
        return rng.normal(size=shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b)


def types():
    for dtype in (np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64,
                  np.float16, np.float32, np.float64):
        name = np_to_triton_dtype(np.dtype(dtype))
        for n in (1, 5):
            data = sample(dtype, n)
            for binary_in in (True, False):
                for binary_out in (True, False):
                    if dtype == np.float16 and not (binary_in and binary_out):
                        continue  # no JSON form, in Triton either
                    x = triton.InferInput("x", list(data.shape), name)
                    x.set_data_from_numpy(data, binary_data=binary_in)
                    y = triton.InferRequestedOutput("y", binary_data=binary_out)
                    result = client.infer("echo-" + name, [x], outputs=[y], request_id="17")
                    assert same(result.as_numpy("y"), data), (name, n, binary_in, binary_out)
                    assert result.get_response()["id"] == "17"
        passed("type " + name)


def compression():
    data = rng.normal(size=(3, 784)).astype(np.float32)
    for sent in (None, "gzip", "deflate"):
        for received in (None, "gzip", "deflate"):
            for binary in (True, False):
                x = triton.InferInput("x", [3, 784], "FP32")
                x.set_data_from_numpy(data, binary_data=binary)
                y = triton.InferRequestedOutput("y", binary_data=binary)
                result = client.infer("wide", [x], outputs=[y], request_compression_algorithm=sent, response_compression_algorithm=received)
                assert same(result.as_numpy("y"), data), (sent, received, binary)
    passed("gzip and deflate, both ways")


def two_inputs():
    a = triton.InferInput("a", [1, 2], "INT32")
    a.set_data_from_numpy(np.array([[5, 6]], dtype=np.int32))
    b = triton.InferInput("b", [1, 1], "UINT8")
    b.set_data_from_numpy(np.array([[7]], dtype=np.uint8))
    result = client.infer("two", [b, a], model_version="0")  # no outputs asked for: all, as binary
    assert result.as_numpy("p").tolist() == [[5, 6]] and result.as_numpy("q").tolist() == [[7]]
    assert result.get_response()["model_version"] == "0"
    mixed = client.infer("two", [b, a], outputs=[triton.InferRequestedOutput("q", binary_data=False), triton.InferRequestedOutput("p")])
    assert [o["name"] for o in mixed.get_response()["outputs"]] == ["q", "p"]
    assert mixed.as_numpy("p").tolist() == [[5, 6]]
    passed("two inputs, outputs in the order asked for")


def parameters():
    x = triton.InferInput("x", [2, 784], "FP32")
    x.set_data_from_numpy(np.zeros((2, 784), dtype=np.float32))
    result = client.infer("digits", [x], outputs=[triton.InferRequestedOutput("logits", class_count=2)], timeout=5000000, priority=1)
    assert result.as_numpy("logits").tolist() == [[b"2.000000:1:one", b"0.000000:0:zero"]] * 2, result.as_numpy("logits")
    assert result.get_response()["parameters"]["batch_size"] == 4
    passed("timeout, priority, classification, reply parameters")
    futures = [client.async_infer("digits", [x]) for _ in range(20)]
    assert all(f.get_result().as_numpy("logits").shape == (2, 3) for f in futures)
    passed("async_infer")
    body, length = triton.InferenceServerClient.generate_request_body([x])
    assert length < len(body)
    stats = client.get_inference_statistics("digits")["model_stats"][0]
    counts = {stats["inference_stats"][k]["count"] for k in ("compute_input", "compute_infer", "compute_output")}
    assert len(counts) == 1 and stats["inference_count"] > 0, stats
    passed("statistics")


def refusals():
    x = triton.InferInput("x", [1, 784], "FP32")
    x.set_data_from_numpy(np.zeros((1, 784), dtype=np.float32))
    refused("unknown model", 404, "Request for unknown model: 'nobody' is not found", lambda: client.infer("nobody", [x]))
    refused("unknown version", 404, "version 9", lambda: client.infer("digits", [x], model_version="9"))
    short = triton.InferInput("x", [1, 783], "FP32")
    short.set_data_from_numpy(np.zeros((1, 783), dtype=np.float32))
    refused("wrong shape", 400, "inputs[0].shape", lambda: client.infer("digits", [short]))
    refused("wrong output", 400, "outputs[0].name", lambda: client.infer("digits", [x], outputs=[triton.InferRequestedOutput("nope")]))


for check in (describe, types, compression, two_inputs, parameters, refusals):
    check()
print("all passed")
