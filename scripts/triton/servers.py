"""Starts both servers with the same models, on free ports of loopback, and ends them."""
import ctypes
import glob
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import models


class Server:
    """One of the two; http and grpc are HOST:PORT."""

    def __init__(self, name, folder, command, http, grpc, environ=None):
        self.name, self.http, self.grpc, self.log = name, http, grpc, os.path.join(folder, "log.txt")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environ, start_new_session=True, preexec_fn=with_parent)

    def await_ready(self, span=120):
        until = time.monotonic() + span
        for model in (m.name for m in models.MODELS):
            if self.name == "symphony" and (model == "spare" or any(m.name == model and m.only for m in models.MODELS)):
                continue
            while not self.answers("/v2/models/%s/ready" % model):
                if self.process.poll() is not None or time.monotonic() > until:
                    raise SystemExit("%s is not ready with model %s:\n%s" % (self.name, model, self.said()))
                time.sleep(0.1)

    def answers(self, path):
        try:
            return urllib.request.urlopen("http://" + self.http + path, timeout=5).status == 200
        except OSError:
            return False

    def said(self):
        with open(self.log, errors="replace") as f:
            return f.read()[-3000:]

    def stop(self):
        """Ends the server and all that it has started, which is its process group."""
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def with_parent():
    """In the child: it is killed where this process is."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = ["127.0.0.1:%d" % s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def triton(folder, venv, shm):
    """The server of the package nvidia-pytriton, without the package's launcher."""
    [packages] = glob.glob(os.path.join(venv, "lib", "python3.*", "site-packages"))
    home = os.path.join(packages, "pytriton", "tritonserver")
    minor = os.path.basename(os.path.dirname(packages))[len("python"):]
    backend = os.path.join(fresh(folder), "backends", "python")
    shutil.copytree(os.path.join(home, "backends", "python"), backend)
    os.symlink(os.path.join(home, "python_backend_stubs", minor, "triton_python_backend_stub"), os.path.join(backend, "triton_python_backend_stub"))
    repository = os.path.join(folder, "models")
    models.triton(repository)
    http, grpc = free_ports(2)
    libraries = [os.path.join(home, "external_libs"), os.path.join(packages, "nvidia_pytriton.libs"), os.path.join(packages, "nvidia", "cuda_runtime", "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    environ.update(VIRTUAL_ENV=venv, PATH=os.path.join(venv, "bin") + ":" + os.environ["PATH"], LD_LIBRARY_PATH=":".join(libraries), PYTHONDONTWRITEBYTECODE="1")
    environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    command = [os.path.join(home, "bin", "tritonserver"), "--model-repository=" + repository, "--backend-directory=" + os.path.join(folder, "backends"),
               "--http-address=127.0.0.1", "--http-port=" + http.split(":")[1], "--grpc-address=127.0.0.1", "--grpc-port=" + grpc.split(":")[1],
               "--allow-metrics=false", "--exit-timeout-secs=5", "--model-control-mode=explicit", "--load-model=*",
               "--backend-config=python,shm-region-prefix-name=" + shm, "--backend-config=python,shm-default-byte-size=4194304"]
    return Server("triton", folder, command, http, grpc, environ)


def symphony(folder, binary, onnxruntime):
    models.symphony(fresh(folder))
    http, grpc, control = free_ports(3)
    config = os.path.join(folder, "symphony.yaml")
    models.write(config, f"""log: {{level: warn}}
rdma: {{mode: never}}
scheduler: {{listen: ["inproc:s"], queue_max: {models.QUEUE}}}
frontend: {{scheduler: "inproc:s", listen: "inproc:f", http: "{http}", grpc: "{grpc}", shared_memory: true}}
control: {{http: "{control}"}}
backend:
  scheduler: "inproc:s"
  repository: {os.path.join(folder, "models")}
  onnxruntime: {onnxruntime}
  pools: [{{device_type: cpu, kind: cpu, devices: 1, threads: 1}}, {{device_type: emulated, kind: emulated, devices: 1}}]
""")
    server = Server("symphony", folder, [binary, "serve", "--config", config], http, grpc, {k: v for k, v in os.environ.items() if not k.startswith("SYMPHONY_")})
    server.control = "http://" + control
    return server


def add_spare(server, binary, folder):
    """Has Symphony's control plane load the model that Triton has in its repository."""
    source = "file://" + os.path.join(folder, "added", "spare")
    subprocess.run([binary, "model", "add", "spare/1", "--source", source, "--device-type", "cpu", "--wait", "--control", server.control], check=True, timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def left_behind(prefix):
    """Shared memory of ours, and what Triton's backend may have left."""
    for path in glob.glob(prefix + "*"):
        os.remove(path)
