#!/usr/bin/env bash
# The chart and the Kustomize folders in a real control plane of Kubernetes on loopback (make test-k8s):
# kube-apiserver, kube-scheduler and kube-controller-manager are built from the Go module proxy, once (some
# minutes, 1 GB of modules), etcd from the module that Symphony has anyway. Nodes and kubelets are the test's own.
# Only processes that the test has started are ended.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/build/k8s/bin
mkdir -p "$bin"
version=$(awk '$1 == "k8s.io/kubernetes" {print $2}' deploy/cluster/go.mod)
if [ "$(cat build/k8s/version 2>/dev/null)" != "$version" ]; then
  echo "building Kubernetes $version, once"
  (cd deploy/cluster && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/" tool)
  echo "$version" >build/k8s/version
fi
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/etcd" go.etcd.io/etcd/server/v3
CGO_ENABLED=0 go build -trimpath -o "$bin/symphony" ./cmd/symphony
(cd cmd/symphony-kube && CGO_ENABLED=0 go build -trimpath -o "$bin/symphony-kube" .)
(cd cmd/symphony-kube && go vet .)
cd deploy
go vet -tags k8s .
SYMPHONY_K8S_BIN=$bin exec go test -tags k8s -count=1 -timeout 30m -run TestKubernetes "$@" .
