"""What cases are, and the requests that many of them begin with."""
import os
from concurrent.futures import ThreadPoolExecutor

import models
from answers import Answer, call, floats, parameters, pb, web

ALL = []  # in the order in which they are sent
KEY = "/symphony-test-triton-%d" % os.getpid()  # of the shared memory object, with A and B at its beginning
A, B = [1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.5, -40.0]


def case(name):
    """Adds a case: f(server) sends it and returns the Answer."""
    def add(f):
        ALL.append((name, f))
        return f
    return add


def simple(name, method, path, body=b"", **how):
    """A case that is one HTTP request."""
    case(name)(lambda server: web(server, method, path, body, **how))


def of(name, method, message, **how):
    """A case that is one gRPC call."""
    case(name)(lambda server: call(server, method, message, **how))


def crowd(server, send):
    """Sends more requests at once than may wait. The answer: what those that were refused got, all of them."""
    with ThreadPoolExecutor(3 * models.QUEUE) as threads:
        got = list(threads.map(lambda _: send(server), range(3 * models.QUEUE)))
    refused = [a for a in got if a.error]
    if not refused or len(refused) == len(got):
        return Answer("%d of %d refused" % (len(refused), len(got)), False, None)
    return Answer(" and ".join(sorted({str(a.status) for a in refused})), True, refused[0].body)


def both(names):
    """The names of models that both servers have."""
    return sorted(n for n in names if not any(m.only for m in models.MODELS if m.name == n))


def tensor(name, data, shape=None, datatype="FP32", **more):
    """An input in JSON; data None: without."""
    t = {"name": name, "shape": shape or [1, len(data)], "datatype": datatype, **more}
    return t if data is None else {**t, "data": data}


def add(a=None, b=None, **more):
    """A request of the model add as JSON, of one item."""
    return {"inputs": [a or tensor("A", A), b or tensor("B", B)], **more}


def sized(name, shape=(1, 4), size=16, datatype="FP32"):
    """An input whose data comes behind the JSON."""
    return tensor(name, None, list(shape), datatype, parameters={"binary_data_size": size})


def raw(model="add", inputs=(("A", A), ("B", B)), version="", outputs=(), shape=None, datatype="FP32", contents=None, **more):
    """A gRPC request of FP32 tensors in raw_input_contents. outputs: names, or (name, parameters)."""
    q = pb.ModelInferRequest(model_name=model, model_version=version)
    for name, data in inputs:
        i = q.inputs.add(name=name, datatype=datatype, shape=shape or [1, len(data)])
        if contents is None:
            q.raw_input_contents.append(data if isinstance(data, bytes) else floats(*data))
        else:
            getattr(i.contents, contents).extend(data)
    for o in outputs:
        name, values = (o, {}) if isinstance(o, str) else o
        parameters(q.outputs.add(name=name).parameters, **values)
    q.id = more.pop("id", "")
    parameters(q.parameters, **more)
    return q
