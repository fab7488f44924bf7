"""Triton's own clients against a running Symphony: tritonclient[grpc] and [http], unmodified.

    python triton.py HTTP_HOST:PORT GRPC_HOST:PORT MODEL

MODEL takes FP32 [-1, 8] as "input", and answers with it as "output". Each check is a row of the table.
All combinations of encodings are tried by combinations.py.
"""
import asyncio
import queue
import sys

import numpy as np
import tritonclient.grpc as tg
import tritonclient.grpc.aio as tga
import tritonclient.http as th
import tritonclient.http.aio as tha
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc import service_pb2, model_config_pb2

from rows import check, data, report, same

HTTP, GRPC, MODEL = sys.argv[1:4]


def inputs(lib, a, **how):
    i = lib.InferInput("input", list(a.shape), "FP32")
    i.set_data_from_numpy(a, **how)
    return [i]


def expect(result, items=1, seed=0):
    same(result.as_numpy("output"), data(items, seed))


for label, lib, address in (("http", th, HTTP), ("grpc", tg, GRPC)):
    client = lib.InferenceServerClient(address)

    @check(f"{label}: health, metadata, configuration, statistics, index, settings")
    def _():
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(MODEL)
        assert not client.is_model_ready("nobody")
        client.get_server_metadata(), client.get_model_metadata(MODEL), client.get_model_config(MODEL)
        client.get_inference_statistics(MODEL), client.get_inference_statistics()
        client.get_model_repository_index(), client.get_trace_settings(), client.get_log_settings()
        client.get_system_shared_memory_status(), client.get_cuda_shared_memory_status()
        try:  # nobody has added it to the control plane
            client.load_model(MODEL)
        except Exception as e:
            assert "failed to load" in str(e), e
        else:
            raise AssertionError("a model that nobody knows to have been loaded")

    @check(f"{label}: infer, of 1 and of 3 items, with id, timeout and priority")
    def _():
        for n in (1, 3):
            r = client.infer(MODEL, inputs(lib, data(n)), request_id="7", timeout=5_000_000, priority=1)
            expect(r, n)
            out = r.get_response()
            assert (out["id"] if isinstance(out, dict) else out.id) == "7"

    @check(f"{label}: outputs asked for, and as classes")
    def _():
        r = client.infer(MODEL, inputs(lib, data()), outputs=[lib.InferRequestedOutput("output", class_count=2)])
        best = [c.decode() for c in r.as_numpy("output").flatten()]
        assert [c.split(":")[1] for c in best] == ["7", "6"], best  # data rises
        expect(client.infer(MODEL, inputs(lib, data()), outputs=[lib.InferRequestedOutput("output")]))

    @check(f"{label}: 100 asynchronous calls")
    def _():
        if lib is th:
            c = lib.InferenceServerClient(address, concurrency=8)
            for k, r in enumerate([c.async_infer(MODEL, inputs(lib, data(1, k))) for k in range(100)]):
                expect(r.get_result(), 1, k)
            c.close()
            return
        done = queue.Queue()
        for k in range(100):
            client.async_infer(MODEL, inputs(lib, data(1, k)), lambda result, error: done.put((result, error)), request_id=str(k))
        seen = set()
        for _ in range(100):
            result, error = done.get(timeout=30)
            assert error is None, error
            k = int(result.get_response().id)
            expect(result, 1, k)
            seen.add(k)
        assert len(seen) == 100, len(seen)

    @check(f"{label}: asyncio")
    def _():
        async def run():
            async with (tha if lib is th else tga).InferenceServerClient(address) as c:
                for k, r in enumerate(await asyncio.gather(*[c.infer(MODEL, inputs(lib, data(1, k))) for k in range(50)])):
                    expect(r, 1, k)
        return run()

    @check(f"{label}: system shared memory, in and out")
    def _():
        size = 8 * 4
        region = shm.create_shared_memory_region("r", "/symphony-clients", 1 << 16)
        try:
            shm.set_shared_memory_region(region, [data()])
            client.unregister_system_shared_memory()
            client.register_system_shared_memory("r", "/symphony-clients", 1 << 16)
            i = lib.InferInput("input", [1, 8], "FP32")
            i.set_shared_memory("r", size)
            o = lib.InferRequestedOutput("output")
            o.set_shared_memory("r", 1 << 12, offset=4096)
            client.infer(MODEL, [i], outputs=[o])
            same(shm.get_contents_as_numpy(region, np.float32, [1, 8], offset=4096), data())
            expect(client.infer(MODEL, [i]))  # in by memory, out in the reply
            shm.set_shared_memory_region(region, [np.zeros((1, 8), np.float32)], offset=4096)
            client.infer(MODEL, inputs(lib, data(1, 5)), outputs=[o])  # and the other way
            same(shm.get_contents_as_numpy(region, np.float32, [1, 8], offset=4096), data(1, 5))
            assert len(client.get_system_shared_memory_status() if lib is th else client.get_system_shared_memory_status().regions) == 1
            client.unregister_system_shared_memory("r")
        finally:
            shm.destroy_shared_memory_region(region)

    @check(f"{label}: refusals are exceptions with their words")
    def _():
        for model, words in (("nobody", "unknown model: 'nobody'"),):
            try:
                client.infer(model, inputs(lib, data()))
            except Exception as e:
                assert words in str(e), e
            else:
                raise AssertionError("no error")

    client.close()


@check("grpc: a stream of 50 requests")
def _():
    c, done = tg.InferenceServerClient(GRPC), queue.Queue()
    c.start_stream(lambda result, error: done.put((result, error)))
    for i in range(50):
        c.async_stream_infer(MODEL, inputs(tg, data(1, i)), request_id=str(i))
    for i in range(50):
        result, error = done.get(timeout=30)
        assert error is None and result.get_response().id == str(i), (i, error)
        expect(result, 1, i)
    c.stop_stream()
    c.close()


@check("grpc: a call that is cancelled, and one that is too late")
def _():
    c, done = tg.InferenceServerClient(GRPC), queue.Queue()
    c.async_infer(MODEL, inputs(tg, data()), lambda result, error: done.put(error)).cancel()
    done.get(timeout=10)
    try:
        c.infer(MODEL, inputs(tg, data()), client_timeout=0.0001)
    except Exception as e:
        assert "DEADLINE_EXCEEDED" in str(e) or "Deadline Exceeded" in str(e), e
    else:
        raise AssertionError("no error")
    c.close()


@check("grpc: the messages have Triton's names and numbers")
def _():
    """Each field of ours is a field of theirs, of the same number and type."""
    import grpc
    from google.protobuf import descriptor_pb2

    def field(message, number):
        """The field of a message, both as bytes: varint and bytes fields are all there is."""
        at = 0

        def varint():
            nonlocal at
            v = shift = 0
            while True:
                b = message[at]
                at, v, shift = at + 1, v | (b & 0x7F) << shift, shift + 7
                if b < 0x80:
                    return v
        while at < len(message):
            tag, v = varint(), varint()
            if tag & 7 == 2:
                if tag >> 3 == number:
                    return message[at:at + v]
                at += v

    symbol = b"inference.GRPCInferenceService"
    ask = grpc.insecure_channel(GRPC).stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    answer = next(iter(ask(iter([b"\x22" + bytes([len(symbol)]) + symbol]))))
    ours = descriptor_pb2.FileDescriptorProto()
    ours.ParseFromString(field(field(answer, 4), 1))
    theirs = {}
    for module in (service_pb2, model_config_pb2):
        for name, d in module.DESCRIPTOR.message_types_by_name.items():
            theirs[name] = d
    enums = {n: e for m in (service_pb2, model_config_pb2) for n, e in m.DESCRIPTOR.enum_types_by_name.items()}
    count = 0

    def compare(d, t, path):
        nonlocal count
        for f in d.field:
            o = t.fields_by_name.get(f.name)
            assert o is not None and o.number == f.number and o.type == f.type and o.is_repeated == (f.label == f.LABEL_REPEATED), (path, f.name)
            count += 1
        for n in d.nested_type:
            compare(n, t.nested_types_by_name[n.name], path + "." + n.name)
        for e in d.enum_type:
            for v in e.value:
                assert t.enum_types_by_name[e.name].values_by_name[v.name].number == v.number, (path, v.name)

    for m in ours.message_type:
        compare(m, theirs[m.name], m.name)
    for e in ours.enum_type:
        for v in e.value:
            assert enums[e.name].values_by_name[v.name].number == v.number, v.name
    methods = {m.name for m in ours.service[0].method}
    missing = {m.name for m in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods} - methods
    return f"{count} fields; calls that only they have: {sorted(missing) or 'none'}"


report("tritonclient")
