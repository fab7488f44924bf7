#!/usr/bin/env bash
# Makes the Go files of the gRPC interfaces anew, from their .proto files. What makes them is
# pinned here and kept in build/proto; nothing of it is needed to build the system.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/proto/bin
mkdir -p "$tools"
# protoc itself has no Go module: PyPI's grpcio-tools carries it.
if [ ! -x build/proto/venv/bin/python ]; then
  python3 -m venv build/proto/venv
fi
build/proto/venv/bin/pip install -q grpcio-tools==1.85.1
GOBIN="$PWD/$tools" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN="$PWD/$tools" go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
for dir in frontend/grpcin/inference; do
  (cd "$dir" && PATH="$OLDPWD/$tools:$PATH" "$OLDPWD/build/proto/venv/bin/python" -m grpc_tools.protoc -I. \
    --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative ./*.proto)
done
gofmt -l frontend/grpcin
