"""The KServe SDK's clients against a running Symphony: InferenceRESTClient with protocol v2, and
InferenceGRPCClient, unmodified.

    python kserve_sdk.py HTTP_HOST:PORT GRPC_HOST:PORT MODEL
"""
import itertools
import sys

import grpc
import httpx
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import RequestedOutput
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub

from rows import check, data, report, same

HTTP, GRPC, MODEL = sys.argv[1:4]
URL = "http://" + HTTP


def request(a, binary, model=MODEL):
    i = InferInput("input", list(a.shape), "FP32")
    i.set_data_from_numpy(a, binary_data=binary)
    return InferRequest(model_name=model, infer_inputs=[i], request_id="7")


def expect(r, a):
    assert r.id == "7" and r.model_name == MODEL, (r.id, r.model_name)
    same(r.outputs[0].as_numpy().reshape(a.shape), a)


def rest():
    return InferenceRESTClient(RESTConfig(protocol="v2"))


@check("http: live, ready, model ready")
async def _():
    c = rest()
    assert await c.is_server_live(URL) is True and await c.is_server_ready(URL) is True
    assert await c.is_model_ready(URL, MODEL) is True
    assert not await c.is_model_ready(URL, "nobody")


@check("http: infer, input as JSON and binary")
async def _():
    c = rest()
    for binary, items in itertools.product((False, True), (1, 3)):
        expect(await c.infer(URL, request(data(items), binary), model_name=MODEL), data(items))


@check("http: infer, output binary on request")
async def _():
    a = data(2)
    q = request(a, True)
    q.request_outputs = [RequestedOutput("output", parameters={"binary_data": True})]
    headers = {}
    expect(await rest().infer(URL, q, model_name=MODEL, response_headers=headers), a)
    assert "inference-header-content-length" in headers, headers


@check("http: a refusal has its words")
async def _():
    try:
        await rest().infer(URL, request(data(), False, "nobody"), model_name="nobody")
    except httpx.HTTPStatusError as e:
        assert e.response.status_code == 404 and "nobody" in str(e), e
    else:
        raise AssertionError("no error")


@check("http: metadata of server and model, by its HTTP library")
async def _():
    # The SDK has no call for them: httpx is what it speaks HTTP with.
    async with httpx.AsyncClient() as c:
        server = (await c.get(URL + "/v2")).raise_for_status().json()
        model = (await c.get(f"{URL}/v2/models/{MODEL}")).raise_for_status().json()
    assert server["name"] == "symphony" and model["inputs"][0] == {"name": "input", "datatype": "FP32", "shape": [-1, 8]}, (server, model)


@check("grpc: live, ready, model ready")
async def _():
    async with InferenceGRPCClient(GRPC) as c:
        assert await c.is_server_live() is True and await c.is_server_ready() is True
        assert await c.is_model_ready(MODEL) is True
        try:
            there = await c.is_model_ready("nobody")
        except grpc.RpcError as e:
            there = e.code() != grpc.StatusCode.NOT_FOUND
        assert not there


@check("grpc: infer, raw and by contents")
async def _():
    async with InferenceGRPCClient(GRPC) as c:
        for binary, items in itertools.product((False, True), (1, 3)):
            expect(await c.infer(request(data(items), binary)), data(items))


@check("grpc: a refusal has its code and words")
async def _():
    async with InferenceGRPCClient(GRPC) as c:
        try:
            await c.infer(request(data(), False, "nobody"))
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.NOT_FOUND and "nobody" in e.details(), e
        else:
            raise AssertionError("no error")


@check("grpc: metadata of server and model, by its stub")
async def _():
    async with grpc.aio.insecure_channel(GRPC) as channel:
        stub = GRPCInferenceServiceStub(channel)
        server = await stub.ServerMetadata(pb.ServerMetadataRequest())
        model = await stub.ModelMetadata(pb.ModelMetadataRequest(name=MODEL))
    assert server.name == "symphony" and model.inputs[0].name == "input" and list(model.inputs[0].shape) == [-1, 8], (server, model)


report("KServe SDK")
