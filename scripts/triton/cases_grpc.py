"""The calls over gRPC."""
import threading
import time

import grpc
from answers import call, parameters, pb, raw_call, stream, texts
from cases import A, B, KEY, both, case, crowd, of, raw
from cases_http import unbatched
from cases_infer import HALF, JSON_VALUES, TEXTS, packed

of("grpc live", "ServerLive", pb.ServerLiveRequest())
of("grpc ready", "ServerReady", pb.ServerReadyRequest())
of("grpc model ready", "ModelReady", pb.ModelReadyRequest(name="add"))
of("grpc version ready", "ModelReady", pb.ModelReadyRequest(name="add", version="1"))
of("grpc ready, unknown model", "ModelReady", pb.ModelReadyRequest(name="nobody"))
of("grpc ready, unknown version", "ModelReady", pb.ModelReadyRequest(name="add", version="9"))
of("grpc ready, version is no number", "ModelReady", pb.ModelReadyRequest(name="add", version="x"))
of("grpc ready, no name", "ModelReady", pb.ModelReadyRequest())
of("grpc server metadata", "ServerMetadata", pb.ServerMetadataRequest())
of("grpc model metadata", "ModelMetadata", pb.ModelMetadataRequest(name="add"))
of("grpc model metadata, all types", "ModelMetadata", pb.ModelMetadataRequest(name="types"))
of("grpc model metadata, unknown model", "ModelMetadata", pb.ModelMetadataRequest(name="nobody"))
of("grpc model metadata, unknown version", "ModelMetadata", pb.ModelMetadataRequest(name="add", version="9"))
of("grpc model config", "ModelConfig", pb.ModelConfigRequest(name="add"))
of("grpc model config, unknown model", "ModelConfig", pb.ModelConfigRequest(name="nobody"))
case("grpc statistics")(lambda server: unbatched(call(server, "ModelStatistics", pb.ModelStatisticsRequest(name="counted"))))
of("grpc statistics, unknown model", "ModelStatistics", pb.ModelStatisticsRequest(name="nobody"))


def index(server, **how):
    """By name: each server has its order."""
    a = call(server, "RepositoryIndex", pb.RepositoryIndexRequest(**how))
    a.body = {m["name"]: m for m in a.body["models"] if both([m["name"]])}
    return a


case("grpc index")(index)
case("grpc index, ready ones")(lambda server: index(server, ready=True))


@case("grpc unload")
def _(server):
    return call(server, "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="spare"))


@case("grpc ready, after unload")
def _(server):
    for _ in range(100):
        a = call(server, "ModelReady", pb.ModelReadyRequest(name="spare"))
        if a.error or not a.body["ready"]:
            break
        time.sleep(0.05)
    return a


of("grpc infer, unloaded model", "ModelInfer", raw("spare", [("in_FP32", A)]))
of("grpc load", "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="spare"), timeout=60)
of("grpc infer, loaded model", "ModelInfer", raw("spare", [("in_FP32", A)]))
of("grpc load, unknown model", "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="nobody"))
of("grpc unload, unknown model", "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="nobody"))
of("grpc trace setting", "TraceSetting", pb.TraceSettingRequest())
of("grpc trace setting of an unknown model", "TraceSetting", pb.TraceSettingRequest(model_name="nobody"))
of("grpc trace setting, changed", "TraceSetting", pb.TraceSettingRequest(settings={"trace_rate": pb.TraceSettingRequest.SettingValue(value=["1000"])}))
of("grpc trace setting, unknown key", "TraceSetting", pb.TraceSettingRequest(settings={"unheard": pb.TraceSettingRequest.SettingValue(value=["1"])}))
of("grpc log settings", "LogSettings", pb.LogSettingsRequest())
of("grpc log settings, changed", "LogSettings", pb.LogSettingsRequest(settings={"log_verbose_level": pb.LogSettingsRequest.SettingValue(uint32_param=0)}))
of("grpc log settings, unknown key", "LogSettings", pb.LogSettingsRequest(settings={"unheard": pb.LogSettingsRequest.SettingValue(bool_param=True)}))

# Shared memory.
of("grpc regions", "SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest())
of("grpc region, unknown", "SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest(name="nobody"))
of("grpc register, no such object", "SystemSharedMemoryRegister", pb.SystemSharedMemoryRegisterRequest(name="g", key="/symphony-not-there", byte_size=64))
of("grpc register, beyond the object", "SystemSharedMemoryRegister", pb.SystemSharedMemoryRegisterRequest(name="g", key=KEY, byte_size=1 << 30))
of("grpc register", "SystemSharedMemoryRegister", pb.SystemSharedMemoryRegisterRequest(name="g", key=KEY, byte_size=256))
of("grpc register, name is taken", "SystemSharedMemoryRegister", pb.SystemSharedMemoryRegisterRequest(name="g", key=KEY, byte_size=256))
of("grpc region", "SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest(name="g"))


def shared(q, region="g", offset=0, size=16, output=None):
    """Puts the last input of a request, or an output, into shared memory."""
    into = q.outputs.add(name=output) if output else q.inputs.add(name="B", datatype="FP32", shape=[1, 4])
    parameters(into.parameters, shared_memory_region=region, shared_memory_offset=offset, shared_memory_byte_size=size)
    return q


def one():
    return raw(inputs=[("A", A)])


def first_shared():
    q = shared(raw(), offset=128, output="SUM")
    q.outputs.add(name="DIFF")
    return q


of("grpc infer, an input in shared memory", "ModelInfer", shared(one()))
of("grpc infer, an output in shared memory", "ModelInfer", shared(raw(), offset=128, output="SUM"))
of("grpc infer, the second output in shared memory, the first not", "ModelInfer", shared(raw(outputs=["SUM"]), offset=128, output="DIFF"))
of("grpc infer, the first output in shared memory, the second not", "ModelInfer", first_shared())
of("grpc infer, unknown region", "ModelInfer", shared(one(), "nobody"))
of("grpc infer, beyond its region", "ModelInfer", shared(one(), offset=250))
of("grpc infer, shared memory of another size", "ModelInfer", shared(one(), size=12))
of("grpc infer, output's shared memory is too small", "ModelInfer", shared(raw(), size=8, output="SUM"))
of("grpc unregister", "SystemSharedMemoryUnregister", pb.SystemSharedMemoryUnregisterRequest(name="g"))
of("grpc unregister what is unregistered", "SystemSharedMemoryUnregister", pb.SystemSharedMemoryUnregisterRequest(name="g"))
of("grpc cuda regions", "CudaSharedMemoryStatus", pb.CudaSharedMemoryStatusRequest())
of("grpc cuda register", "CudaSharedMemoryRegister", pb.CudaSharedMemoryRegisterRequest(name="c", raw_handle=b"\0", byte_size=64))
of("grpc cuda unregister all", "CudaSharedMemoryUnregister", pb.CudaSharedMemoryUnregisterRequest())


def infer(name, q, **how):
    of("grpc infer " + name, "ModelInfer", q, **how)


def changed(q, change):
    change(q)
    return q


# Inferences, good and bad.
infer("raw", raw())
infer("raw, with version", raw(version="1"))
infer("raw, 3 items", raw(inputs=[("A", A * 3), ("B", B * 3)], shape=[3, 4]))
infer("typed contents", raw(contents="fp32_contents"))
infer("id", raw(id="request-7"))
infer("one output", raw(outputs=["DIFF"]))
infer("outputs in another order", raw(outputs=["DIFF", "SUM"]))
infer("unknown parameters", raw(unheard="x", answer=42, yes=True))
infer("parameter binary_data of an output", raw(outputs=[("SUM", {"binary_data": False})]))
infer("sequence parameters", raw(sequence_id=42, sequence_start=True, sequence_end=True))
infer("priority", raw(priority=1))
infer("priority 0", raw(priority=0))
infer("priority beyond the last", raw(priority=256))
infer("priority is negative", raw(priority=-1))
infer("gzip", raw(), compression=grpc.Compression.Gzip)
infer("deflate", raw(), compression=grpc.Compression.Deflate)


def all_types(contents):
    fields = {"FP32": "fp32", "FP64": "fp64", "BOOL": "bool", "INT64": "int64", "UINT64": "uint64"}
    q = pb.ModelInferRequest(model_name="types")
    for (t, values), data in zip(JSON_VALUES.items(), packed(JSON_VALUES)):
        i = q.inputs.add(name="in_" + t, datatype=t, shape=[1, 2])
        if contents:
            getattr(i.contents, fields.get(t, "uint" if t[0] == "U" else "int") + "_contents").extend(values)
        else:
            q.raw_input_contents.append(data)
    return q


infer("all types, raw", all_types(False))
infer("all types, typed contents", all_types(True))
infer("FP16", raw("half", [("in_FP16", HALF)], shape=[1, 4], datatype="FP16"))
infer("FP16 for FP32", raw(inputs=[("A", HALF), ("B", HALF)], shape=[1, 4], datatype="FP16"))
infer("BF16", raw("brain", [("in_BF16", b"\x80\x3f\x00\x40\x40\x40\x80\x40")], shape=[1, 4], datatype="BF16"))
infer("BYTES", raw("text", [("in_BYTES", TEXTS)], shape=[1, 4], datatype="BYTES"))
infer("BYTES, typed contents", raw("text", [("in_BYTES", [b"a", b"", b"c", b"d"])], datatype="BYTES", contents="bytes_contents"))
infer("BYTES for FP32", raw(inputs=[("A", texts(b"a", b"b", b"c", b"d")), ("B", B)], shape=[1, 4], datatype="BYTES"))
infer("INT8 that does not fit", raw("types", [("in_INT8", [300, 0])], datatype="INT8", contents="int_contents"))
infer("classification", raw(outputs=[("SUM", {"classification": 2})]))
infer("classification, above the classes", raw(outputs=[("SUM", {"classification": 9})]))
infer("classification 0", raw(outputs=[("SUM", {"classification": 0})]))
infer("classification is text", raw(outputs=[("SUM", {"classification": "2"})]))
infer("classification, 2 items", raw(inputs=[("A", A * 2), ("B", B * 2)], shape=[2, 4], outputs=[("SUM", {"classification": 2})]))
infer("an input is missing", raw(inputs=[("A", A)]))
infer("an input is unknown", raw(inputs=[("A", A), ("B", B), ("C", A)]))
infer("an input twice", raw(inputs=[("A", A), ("A", A), ("B", B)]))
infer("wrong shape", raw(inputs=[("A", A * 2), ("B", B * 2)]))
infer("no dimension for the batch", raw(shape=[4]))
infer("above max_batch_size", raw(inputs=[("A", A * 9), ("B", B * 9)], shape=[9, 4]))
infer("a batch of 0", raw(inputs=[("A", b""), ("B", b"")], shape=[0, 4]))
infer("a negative dimension", raw(shape=[-1, 4]))
infer("wrong datatype", raw(datatype="INT32"))
infer("unknown datatype", raw(datatype="FP33"))
infer("raw contents too short", raw(inputs=[("A", A[:3]), ("B", B)], shape=[1, 4]))
infer("raw contents too long", raw(inputs=[("A", A + [5.0]), ("B", B)], shape=[1, 4]))
infer("raw contents, one is missing", changed(raw(), lambda q: q.raw_input_contents.pop()))
infer("raw contents, one too many", changed(raw(), lambda q: q.raw_input_contents.append(b"more")))
infer("raw contents, none", changed(raw(), lambda q: q.ClearField("raw_input_contents")))
infer("raw and typed contents", changed(raw(), lambda q: q.inputs[0].contents.fp32_contents.extend(A)))
infer("typed contents of another type", raw(contents="fp64_contents"))
infer("typed contents too short", raw(inputs=[("A", A[:3]), ("B", B)], shape=[1, 4], contents="fp32_contents"))
infer("an unknown output", raw(outputs=["PRODUCT"]))
infer("an output twice", raw(outputs=["SUM", "SUM"]))
infer("no inputs", pb.ModelInferRequest(model_name="add"))
infer("an empty message", pb.ModelInferRequest())
infer("unknown model", raw("nobody"))
infer("unknown version", raw(version="9"))
infer("version is no number", raw(version="x"))
infer("timeout is long enough", raw("slow", [("x", A + A)], timeout=20_000_000))
infer("timeout shorter than the model takes", raw("slow", [("x", A + A)], timeout=100_000))
infer("timeout is negative", raw(timeout=-1))
infer("timeout is text", raw(timeout="soon"))
infer("priority is text", raw(priority="high"))
of("grpc infer, the client's deadline passes", "ModelInfer", raw("slow", [("x", A + A)]), timeout=0.1)
case("grpc infer more than may wait")(lambda server: crowd(server, lambda s: call(s, "ModelInfer", raw("busy", [("x", A + A)]))))


@case("grpc infer timeout passes while another one runs")
def _(server):
    slow = raw("slow", [("x", A + A)])
    first = threading.Thread(target=call, args=(server, "ModelInfer", slow))
    first.start()
    time.sleep(0.15)
    answer = call(server, "ModelInfer", raw("slow", [("x", A + A)], timeout=50_000))
    first.join()
    return answer


# Streams.
def streamed(name, *messages):
    case("grpc stream " + name)(lambda server: stream(server, messages))


streamed("of three", raw(id="1"), raw(id="2"), raw(id="3"))
streamed("of none")
streamed("with an error between", raw(id="1"), raw("nobody", id="2"), raw(id="3"))
streamed("with an unknown output", raw(id="1", outputs=["PRODUCT"]))
streamed("with an input too short", raw(id="1", inputs=[("A", A[:3]), ("B", B)], shape=[1, 4]))
streamed("with an empty final answer asked for", raw(id="1", triton_enable_empty_final_response=True))

# What is no call of the service.
case("grpc unknown method")(lambda server: raw_call(server, "/inference.GRPCInferenceService/ModelOutfer"))
case("grpc unknown service")(lambda server: raw_call(server, "/inference.Nobody/ModelInfer"))
case("grpc message is no protobuf")(lambda server: raw_call(server, "/inference.GRPCInferenceService/ModelInfer", b"\xff\xff\xff\xff"))
case("grpc metadata message is no protobuf")(lambda server: raw_call(server, "/inference.GRPCInferenceService/ModelMetadata", b"\xff\xff\xff\xff"))
case("grpc health check")(lambda server: raw_call(server, "/grpc.health.v1.Health/Check"))
case("grpc health check, of a model")(lambda server: raw_call(server, "/grpc.health.v1.Health/Check", b"\x0a\x03add"))
case("grpc health check, unknown service")(lambda server: raw_call(server, "/grpc.health.v1.Health/Check", b"\x0a\x06nobody"))
