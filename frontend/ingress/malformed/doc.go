// Package malformed is a table of bad HTTP requests with the answers that they
// must get. The ingress's own tests fire it at a fake frontend, the end-to-end
// tests at the real server; both let good traffic run beside it.
//
// The table is data: Cases makes it for a model, Fire sends one case over a
// connection of its own and compares the answer. It imports nothing of the
// module, so that it tests what clients see.
package malformed
