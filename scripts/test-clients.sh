#!/usr/bin/env bash
# Other people's clients, unmodified, against a Symphony of this tree on loopback. Installs them from
# their registries into build/clients; whatever cannot be had is said, and fails nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/clients/venv
made=build/clients/.made
if [ ! -e "$made" ] || [ scripts/clients/requirements.txt -nt "$made" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q -r scripts/clients/requirements.txt
  touch "$made"
fi
mkdir -p build/clients
log=build/clients/serve.log
ports=($("$venv/bin/python" - <<'PY'
import socket
held = [socket.socket() for _ in range(2)]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in held])
PY
))
http=127.0.0.1:${ports[0]} grpc=127.0.0.1:${ports[1]}
cat > build/clients/model.csv <<'CSV'
model,alpha_ms,beta_ms,slo_ms
m,0.1,1,1000
CSV
cat > build/clients/serve.yaml <<YAML
log: {level: warn}
rdma: {mode: never}
scheduler: {listen: ["inproc:s"]}
frontend: {scheduler: "inproc:s", listen: "inproc:f", http: "$http", grpc: "$grpc", shared_memory: true}
control: {http: "127.0.0.1:0"}
backend: {scheduler: "inproc:s", pools: [{device_type: e, kind: emulated, devices: 1, zoo: [{csv: build/clients/model.csv}]}]}
YAML
./bin/symphony serve --config build/clients/serve.yaml > "$log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true' EXIT
ready=
for _ in $(seq 300); do
  if "$venv/bin/python" -c "import urllib.request as u; u.urlopen('http://$http/v2/models/m/ready')" 2>/dev/null; then ready=1; break; fi
  kill -0 $server 2>/dev/null || break
  sleep 0.1
done
[ -n "$ready" ] || { echo "the server is not ready:"; cat "$log"; exit 1; }
failed=0
"$venv/bin/python" scripts/clients/triton.py "$http" "$grpc" m || failed=1

# row NAME WORDS COMMAND...: what the command says must have the words in it.
row() {
  local name=$1 words=$2 said
  shift 2
  if said=$("$@" 2>&1) && grep -qF -- "$words" <<<"$said"; then
    printf '%-66s  ok\n' "$name"
  else
    printf '%-66s  FAILED  %s\n' "$name" "${said:0:300}"
    failed=1
  fi
}
bin=$PWD/build/clients/bin
tool() { # NAME PACKAGE@VERSION
  [ -x "$bin/$1" ] || GOFLAGS= GOBIN="$bin" go install "$2" 2>build/clients/$1.log || { echo "$1 cannot be had here: see build/clients/$1.log"; return 1; }
}
if tool grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3; then
  q='{"model_name": "m", "inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 8], "contents": {"fp32_contents": [1, 2, 3, 4, 5, 6, 7, 8]}}]}'
  row "grpcurl: services by reflection" inference.GRPCInferenceService "$bin/grpcurl" -plaintext "$grpc" list
  row "grpcurl: health" SERVING "$bin/grpcurl" -plaintext -d '{"service": "m"}' "$grpc" grpc.health.v1.Health/Check
  row "grpcurl: an inference" rawOutputContents "$bin/grpcurl" -plaintext -d "$q" "$grpc" inference.GRPCInferenceService/ModelInfer
fi
if tool ghz github.com/bojand/ghz/cmd/ghz@v0.121.0; then
  row "ghz: 2,000 inferences, 20 at a time, none fails" "[OK]   2000 responses" "$bin/ghz" --insecure --call inference.GRPCInferenceService.ModelInfer -d "$q" -n 2000 -c 20 "$grpc"
fi
exit $failed
