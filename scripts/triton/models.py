"""The same models for both servers: for Triton a config.pbtxt and model.py, for Symphony a config.yaml and an
ONNX file that computes the same, written here."""
import os
import shutil

# Numbers of onnx.proto's element types, by the protocol's names.
TYPES = {"FP32": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9, "FP16": 10, "FP64": 11, "UINT32": 12, "UINT64": 13}
# FP16 is a model of its own: it has no JSON form.
JSON_TYPES = [t for t in TYPES if t != "FP16"]
MAX_BATCH = 8
PRIORITIES = "priority_levels: 255, default_priority_level: 128"  # what Symphony takes for every model
QUEUE = 16  # how many requests may wait for a model
LABELS = ["zero", "one", "two", "three"]


class Model:
    """inputs and outputs are (name, type, shape of one item). only: the one server that has it."""

    def __init__(self, name, op, inputs, outputs, only=None, ms=0, labels=()):
        self.name, self.op, self.inputs, self.outputs = name, op, inputs, outputs
        self.only, self.ms, self.labels = only, ms, labels


def identity(name, *types, shape=(4,), **more):
    return Model(name, "identity", [("in_" + t, t, shape) for t in types], [("out_" + t, t, shape) for t in types], **more)


MODELS = [
    Model("add", "add", [("A", "FP32", (4,)), ("B", "FP32", (4,))], [("SUM", "FP32", (4,)), ("DIFF", "FP32", (4,))], labels=LABELS),
    identity("types", *JSON_TYPES, shape=(2,)),
    identity("half", "FP16"),
    identity("counted", "FP32"),  # asked by the cases of statistics and of raw bodies alone
    identity("spare", "FP32"),  # loaded and unloaded
    Model("slow", "slow", [("x", "FP32", (8,))], [("y", "FP32", (8,))], ms=400),
    Model("busy", "slow", [("x", "FP32", (8,))], [("y", "FP32", (8,))], ms=100),  # asked by crowds alone
    identity("text", "BYTES", only="triton"),
    identity("brain", "BF16", only="triton"),
]


def triton(folder):
    for m in MODELS:
        home = os.path.join(folder, m.name)
        os.makedirs(os.path.join(home, "1"))
        shutil.copy(os.path.join(os.path.dirname(__file__), "model.py"), os.path.join(home, "1"))
        if m.labels:
            write(os.path.join(home, "labels.txt"), "\n".join(m.labels) + "\n")
        write(os.path.join(home, "config.pbtxt"), pbtxt(m))


def pbtxt(m):
    def tensors(key, all, more=""):
        return "".join('%s [{name: "%s", data_type: TYPE_%s, dims: [%s]%s}]\n' % (key, name, "STRING" if t == "BYTES" else t, ", ".join(map(str, dims)), more) for name, t, dims in all)
    # Without REJECT and allow_timeout_override Triton ignores a request's timeout.
    policy = "default_queue_policy {timeout_action: REJECT, default_timeout_microseconds: 60000000, allow_timeout_override: true, max_queue_size: %d}" % QUEUE
    return ('backend: "python"\nmax_batch_size: %d\n' % (1 if m.ms else MAX_BATCH) + tensors("input", m.inputs)
            + tensors("output", m.outputs, ', label_filename: "labels.txt"' if m.labels else "")
            + "instance_group [{count: 1, kind: KIND_CPU}]\ndynamic_batching {%s, %s}\n" % (policy, PRIORITIES)
            + 'parameters [{key: "op", value: {string_value: "%s"}}, {key: "ms", value: {string_value: "%d"}}]\n' % (m.op, m.ms))


def symphony(folder):
    """Writes the repository, and beside it "added" with the model that the control plane is to load."""
    for m in MODELS:
        if m.only == "triton":
            continue
        home = os.path.join(folder, "added" if m.name == "spare" else "models", m.name)
        os.makedirs(home)
        text = "slo: 30s\ninputs: [%s]\noutputs: [%s]\n" % (yaml(m.inputs), yaml(m.outputs))
        if m.labels:
            text += "labels: [%s]\n" % ", ".join(m.labels)
        if m.ms:
            text += "platform: emulated\ndevice_type: emulated\nmax_batch: 1\nprofile: {alpha_ms: 0.001, beta_ms: %d}\n" % m.ms
        else:
            text += "platform: onnxruntime\ndevice_type: cpu\nmax_batch: %d\n" % MAX_BATCH
            os.mkdir(os.path.join(home, "1"))
            with open(os.path.join(home, "1", "model.onnx"), "wb") as f:
                f.write(onnx(m))
        write(os.path.join(home, "config.yaml"), text)


def yaml(tensors):
    return ", ".join("{name: %s, type: %s, shape: [%s]}" % (name, t, ", ".join(map(str, dims))) for name, t, dims in tensors)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


# What follows is as much of onnx.proto as the models need.
def varint(v):
    out = b""
    while v > 0x7F:
        out, v = out + bytes([v & 0x7F | 0x80]), v >> 7
    return out + bytes([v])


def number(field, v):
    return varint(field << 3) + varint(v)


def piece(field, of):
    of = of.encode() if isinstance(of, str) else of
    return varint(field << 3 | 2) + varint(len(of)) + of


def onnx(m):
    def node(op, inputs, output):
        return piece(1, b"".join(piece(1, i) for i in inputs) + piece(2, output) + piece(3, output) + piece(4, op))

    def info(field, name, t, dims):
        shape = piece(1, piece(2, "N")) + b"".join(piece(1, number(1, d)) for d in dims)
        return piece(field, piece(1, name) + piece(2, piece(1, number(1, TYPES[t]) + piece(2, shape))))
    if m.op == "add":
        graph = node("Add", ["A", "B"], "SUM") + node("Sub", ["A", "B"], "DIFF")
    else:
        graph = b"".join(node("Identity", [i[0]], o[0]) for i, o in zip(m.inputs, m.outputs))
    graph += piece(2, m.name) + b"".join(info(11, *i) for i in m.inputs) + b"".join(info(12, *o) for o in m.outputs)
    return number(1, 8) + piece(2, "symphony") + piece(7, graph) + piece(8, piece(1, "") + number(2, 17))
