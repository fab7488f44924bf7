// Package inference is the Open Inference Protocol's gRPC interface with Triton's calls, made from
// inference.proto by `make proto` (scripts/proto.sh): protoc, protoc-gen-go and protoc-gen-go-grpc in
// the versions that the made files name in their first lines.
package inference
