// Package externalscaler is KEDA's gRPC interface for external scalers, made from
// externalscaler.proto by
//
//	protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative externalscaler.proto
//
// with the versions that the made files name in their first lines.
package externalscaler
