"""What clients ask over HTTP beside inferences."""
import time

from answers import web
from cases import A, KEY, both, case, simple, tensor

M = "/v2/models/"

simple("http live", "GET", "/v2/health/live")
simple("http ready", "GET", "/v2/health/ready")
simple("http model ready", "GET", M + "add/ready")
simple("http version ready", "GET", M + "add/versions/1/ready")
simple("http ready, unknown model", "GET", M + "nobody/ready")
simple("http ready, unknown version", "GET", M + "add/versions/9/ready")
simple("http ready, version is no number", "GET", M + "add/versions/x/ready")
simple("http server metadata", "GET", "/v2")
simple("http server metadata, slash at the end", "GET", "/v2/")
simple("http model metadata", "GET", M + "add")
simple("http model metadata, version", "GET", M + "add/versions/1")
simple("http model metadata, all types", "GET", M + "types")
simple("http model metadata, unknown model", "GET", M + "nobody")
simple("http model metadata, unknown version", "GET", M + "add/versions/9")
simple("http model config", "GET", M + "add/config")
simple("http model config, version", "GET", M + "add/versions/1/config")
simple("http model config, unknown model", "GET", M + "nobody/config")
simple("http escaped letters in a path", "GET", M + "%61dd")
simple("http query behind a path", "GET", M + "add?x=1")


@case("http statistics after two inferences")
def _(server):
    for _ in range(2):
        web(server, "POST", M + "counted/infer", {"inputs": [tensor("in_FP32", A)]})
    return web(server, "GET", M + "counted/stats")


@case("http statistics after three items in one request")
def _(server):
    web(server, "POST", M + "counted/infer", {"inputs": [tensor("in_FP32", A * 3, [3, 4])]})
    return unbatched(web(server, "GET", M + "counted/versions/1/stats"))


def unbatched(a):
    """Without what depends on how a server makes batches of items."""
    for m in a.body["model_stats"]:
        m.pop("batch_stats"), m.pop("execution_count")
    return a


simple("http statistics, unknown model", "GET", M + "nobody/stats")
simple("http statistics, unknown version", "GET", M + "counted/versions/9/stats")


@case("http statistics of all")
def _(server):
    a = web(server, "GET", "/v2/models/stats")
    # What each says of a model is compared above; here, that they are there.
    a.body = both(m["name"] for m in a.body["model_stats"])
    return a


# The repository.
def index(server, body=b""):
    """By name: each server has its order."""
    a = web(server, "POST", "/v2/repository/index", body)
    a.body = {m["name"]: m for m in a.body if both([m["name"]])}
    return a


case("http index")(index)
case("http index, empty object")(lambda server: index(server, {}))
case("http index, ready ones")(lambda server: index(server, {"ready": True}))
simple("http index, ready is no boolean", "POST", "/v2/repository/index", {"ready": "yes"})
simple("http index, malformed", "POST", "/v2/repository/index", "{")
simple("http index by GET", "GET", "/v2/repository/index")
simple("http load what is loaded", "POST", "/v2/repository/models/spare/load")
simple("http unload", "POST", "/v2/repository/models/spare/unload", {"parameters": {"unload_dependents": False}})


@case("http index, after unload")
def _(server):
    for _ in range(100):  # an unload may be answered before its end
        a = index(server)
        a.body = a.body["spare"]
        if a.body["state"] == "UNAVAILABLE":
            break
        time.sleep(0.05)
    return a


simple("http ready, after unload", "GET", M + "spare/ready")
simple("http infer, unloaded model", "POST", M + "spare/infer", {"inputs": [tensor("in_FP32", A)]})
simple("http unload what is unloaded", "POST", "/v2/repository/models/spare/unload")
simple("http load", "POST", "/v2/repository/models/spare/load", {})
simple("http ready, after load", "GET", M + "spare/ready")
simple("http infer, loaded model", "POST", M + "spare/infer", {"inputs": [tensor("in_FP32", A)]})
simple("http load, unknown model", "POST", "/v2/repository/models/nobody/load")
simple("http unload, unknown model", "POST", "/v2/repository/models/nobody/unload")
simple("http load, malformed", "POST", "/v2/repository/models/spare/load", "{")
simple("http load, unknown parameter", "POST", "/v2/repository/models/spare/load", {"parameters": {"unheard": "x"}})
simple("http load, config is malformed", "POST", "/v2/repository/models/spare/load", {"parameters": {"config": "{"}})
simple("http load by GET", "GET", "/v2/repository/models/spare/load")

# Settings.
simple("http trace setting", "GET", "/v2/trace/setting")
simple("http trace setting of a model", "GET", M + "add/trace/setting")
simple("http trace setting of an unknown model", "GET", M + "nobody/trace/setting")
simple("http trace setting, changed", "POST", "/v2/trace/setting", {"trace_rate": "1000"})
simple("http trace setting, unknown key", "POST", "/v2/trace/setting", {"unheard": "1"})
simple("http trace setting, nothing to change", "POST", "/v2/trace/setting", {})
simple("http log settings", "GET", "/v2/logging")
simple("http log settings, changed", "POST", "/v2/logging", {"log_verbose_level": 0})
simple("http log settings, unknown key", "POST", "/v2/logging", {"unheard": True})
simple("http log settings, nothing to change", "POST", "/v2/logging", {})

# Shared memory.
S = "/v2/systemsharedmemory"
simple("http regions", "GET", S + "/status")
simple("http region, unknown", "GET", S + "/region/nobody/status")
simple("http register, no such object", "POST", S + "/region/r/register", {"key": "/symphony-not-there", "offset": 0, "byte_size": 64})
simple("http register, no key", "POST", S + "/region/r/register", {"byte_size": 64})
simple("http register, malformed", "POST", S + "/region/r/register", "{")
simple("http register, beyond the object", "POST", S + "/region/r/register", {"key": KEY, "offset": 0, "byte_size": 1 << 30})
simple("http register", "POST", S + "/region/r/register", {"key": KEY, "offset": 0, "byte_size": 256})
simple("http register, name is taken", "POST", S + "/region/r/register", {"key": KEY, "offset": 0, "byte_size": 256})
simple("http region", "GET", S + "/region/r/status")
simple("http regions, one", "GET", S + "/status")


def shared(name, region="r", offset=0, size=16):
    return tensor(name, None, [1, 4], parameters={"shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": size})


def out(region="r", offset=128, size=16):
    return {"name": "SUM", "parameters": {"shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": size}}


simple("http infer, inputs in shared memory", "POST", M + "add/infer", {"inputs": [shared("A"), shared("B", offset=16)]})
simple("http infer, an output in shared memory", "POST", M + "add/infer", {"inputs": [shared("A"), tensor("B", A)], "outputs": [out()]})
simple("http infer, one output in shared memory and one not", "POST", M + "add/infer", {"inputs": [shared("A"), tensor("B", A)], "outputs": [out(), {"name": "DIFF"}]})
simple("http infer, unknown region", "POST", M + "add/infer", {"inputs": [shared("A", "nobody"), tensor("B", A)]})
simple("http infer, output in an unknown region", "POST", M + "add/infer", {"inputs": [shared("A"), tensor("B", A)], "outputs": [out("nobody")]})
simple("http infer, beyond its region", "POST", M + "add/infer", {"inputs": [shared("A", offset=250), tensor("B", A)]})
simple("http infer, shared memory of another size", "POST", M + "add/infer", {"inputs": [shared("A", size=12), tensor("B", A)]})
simple("http infer, output's shared memory is too small", "POST", M + "add/infer", {"inputs": [shared("A"), tensor("B", A)], "outputs": [out(size=8)]})
simple("http unregister", "POST", S + "/region/r/unregister")
simple("http unregister what is unregistered", "POST", S + "/region/r/unregister")
simple("http unregister all", "POST", S + "/unregister")
simple("http cuda regions", "GET", "/v2/cudasharedmemory/status")
simple("http cuda register", "POST", "/v2/cudasharedmemory/region/r/register", {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 64})
simple("http cuda unregister all", "POST", "/v2/cudasharedmemory/unregister")

# Wrong methods and paths.
simple("http infer by GET", "GET", M + "add/infer")
simple("http infer by PUT", "PUT", M + "add/infer", "{}")
simple("http infer by DELETE", "DELETE", M + "add/infer")
simple("http metadata by POST", "POST", M + "add")
simple("http server metadata by POST", "POST", "/v2")
simple("http live by POST", "POST", "/v2/health/live")
simple("http ready by POST", "POST", "/v2/health/ready")
simple("http config by POST", "POST", M + "add/config")
simple("http statistics by POST", "POST", M + "add/stats")
simple("http path: no such", "GET", "/v3")
simple("http path: health of nothing", "GET", "/v2/health")
simple("http path: models without a name", "GET", "/v2/models")
simple("http path: an empty model", "POST", M + "/infer", "{}")
simple("http path: unknown action", "POST", M + "add/outfer", "{}")
simple("http path: more behind infer", "POST", M + "add/infer/more", "{}")
simple("http path: an empty version", "POST", M + "add/versions//infer", "{}")
simple("http path: slash behind infer", "POST", M + "add/infer/", {"inputs": [tensor("A", A), tensor("B", A)]})
