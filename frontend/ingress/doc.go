// Package ingress speaks the Open Inference Protocol (KServe V2) over HTTP on
// top of the frontend's client library.
package ingress
