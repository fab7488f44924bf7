// Package deploy checks what is beside it, without a cluster: that the chart and the Kustomize folders
// are what a cluster takes (each object is decoded strictly into its Kubernetes type), that what they
// name in each other is there, and that images, pods and units keep the rules below. It is a Go module
// of its own, as Helm and Kustomize bring much that Symphony does not need; `make test` has it as the
// stage deploy.
//
//  1. Images are named by value: a digest, or an exact version; never latest.
//  2. Pods are not root, their root file systems are read only, and they have no capability but
//     IPC_LOCK, where links go over RDMA.
//  3. Pods end later than what they drain can take, and have probes.
//  4. Kustomize's base is the chart as it is rendered without values: go test -run TestBase -update.
//  5. The configuration files that the chart makes are in testdata (-update), where package
//     cmd/symphony/config reads them: a key that is renamed fails there.
package deploy
