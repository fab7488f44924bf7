#!/usr/bin/env bash
# Other people's clients, unmodified, against a Symphony of this tree on loopback. Installs them from
# their registries, pinned, into build/clients. Every client has rows in the table at the end, which is
# written to build/clients/results.md, too: one that cannot be had or that dies has one that failed.
#   ONLY=tritonclient,k6   these clients alone
#   PERF_SECONDS=10        perf_analyzer's long runs are shorter than 60 s
set -euo pipefail
cd "$(dirname "$0")/.."
clients=(tritonclient perf_analyzer 'KServe SDK' grpcurl ghz k6)
declare -A version=([grpcurl]=v1.9.3 [ghz]=v0.121.0 [k6]=v1.8.1)
declare -A package=([grpcurl]=github.com/fullstorydev/grpcurl/cmd/grpcurl [ghz]=github.com/bojand/ghz/cmd/ghz [k6]=go.k6.io/k6)
here=build/clients bin=$PWD/build/clients/bin
mkdir -p "$here"
export CLIENTS_ROWS=$PWD/$here/rows.tsv
rm -f "$CLIENTS_ROWS" $here/*.log

pinned() { sed -n "s/^$1\(\[.*\]\)\?==//p" "scripts/clients/$2"; }
wanted() { [[ -z ${ONLY:-} || ,$ONLY, == *",$1,"* ]]; }
row() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(tr -s '\n\t ' ' ' <<<"$4" | tail -c 200)" >> "$CLIENTS_ROWS"; }

# venv NAME: a virtual environment with what NAME.txt lists.
venv() {
  local into=$here/venv-$1 list=scripts/clients/$1.txt
  if ! [ -e "$into/.made" ] || ! cmp -s "$list" "$into/.made"; then
    rm -rf "$into"
    python3 -m venv "$into" && "$into/bin/pip" install -q -r "$list" && cp "$list" "$into/.made"
  fi
}

# tool NAME PACKAGE: a program in Go, of its pinned version.
tool() {
  [ -e "$bin/$1-${version[$1]}" ] || { GOFLAGS= GOBIN="$bin" go install "$2@${version[$1]}" && mv "$bin/$1" "$bin/$1-${version[$1]}"; }
}

# client NAME COMMAND...: the command hands in the client's rows. If it ends badly, that is a row.
client() {
  local name=$1 log=$here/$1.log
  shift
  echo "$name ..."
  "$@" >> "$log" 2>&1 || row "$name" "its checks end" FAILED "status $?: $(tail -n 3 "$log")"
}

# have NAME COMMAND...: installs it, or says in a row that it cannot be had.
have() {
  local name=$1 log=$here/$1-install.log
  shift
  "$@" > "$log" 2>&1 || { row "$name" "can be had" FAILED "$(tail -n 3 "$log")"; return 1; }
}

have 'the harness' venv triton || { cat "$here/the harness-install.log"; exit 1; }
python=$here/venv-triton/bin/python
ports=($("$python" - <<'PY'
import socket
held = [socket.socket() for _ in range(2)]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in held])
PY
))
http=127.0.0.1:${ports[0]} grpc=127.0.0.1:${ports[1]}
cat > $here/model.csv <<'CSV'
model,alpha_ms,beta_ms,slo_ms
m,0.1,1,1000
CSV
# Shared memory is off by default, and clients of it are among those here.
cat > $here/serve.yaml <<YAML
log: {level: warn}
rdma: {mode: never}
scheduler: {listen: ["inproc:s"]}
frontend: {scheduler: "inproc:s", listen: "inproc:f", http: "$http", grpc: "$grpc", shared_memory: true}
control: {http: "127.0.0.1:0"}
backend: {scheduler: "inproc:s", pools: [{device_type: e, kind: emulated, devices: 1, zoo: [{csv: $here/model.csv}]}]}
YAML
./bin/symphony serve --config $here/serve.yaml > $here/serve.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true' EXIT
ready=
for _ in $(seq 300); do
  if "$python" -c "import urllib.request as u; u.urlopen('http://$http/v2/models/m/ready')" 2>/dev/null; then ready=1; break; fi
  kill -0 $server 2>/dev/null || break
  sleep 0.1
done
[ -n "$ready" ] || { echo "the server is not ready:"; cat $here/serve.log; exit 1; }

s=scripts/clients asked=()
for name in "${clients[@]}"; do
  wanted "$name" || continue
  case $name in
    tritonclient)
      asked+=("$name=$(pinned tritonclient triton.txt)")
      client "$name" "$python" $s/triton.py "$http" "$grpc" m
      client "$name" "$python" $s/combinations.py "$http" "$grpc" m ;;
    perf_analyzer)
      asked+=("$name=$(sed -n 's/.* want=\([0-9.]*\).*/\1/p' $s/perf-analyzer.sh)")
      have "$name" $s/perf-analyzer.sh "$python" $here/perf &&
        client "$name" "$python" $s/perf.py $here/perf/perf_analyzer "$http" "$grpc" m 1 $here/perf-results ;;
    'KServe SDK')
      asked+=("$name=$(pinned kserve kserve.txt)")
      have "$name" venv kserve && client "$name" $here/venv-kserve/bin/python $s/kserve_sdk.py "$http" "$grpc" m ;;
    *)
      asked+=("$name=${version[$name]}")
      have "$name" tool "$name" "${package[$name]}" &&
        client "$name" "$python" $s/tools.py "$name" "$bin/$name-${version[$name]}" "$http" "$grpc" m $here ;;
  esac || true
done
kill -0 $server 2>/dev/null || row Symphony 'the server lives when they are done' FAILED "$(tail -n 3 $here/serve.log)"
if grep -q 'DATA RACE\|^panic' $here/serve.log; then row Symphony 'the server is sound' FAILED "$(grep -A 3 'DATA RACE\|^panic' $here/serve.log)"; fi
"$python" $s/table.py "$CLIENTS_ROWS" $here/results.md "${asked[@]}"
