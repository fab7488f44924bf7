// Package api is the control plane's HTTP API: what its documents are, what they may say, and
// a handler over whoever carries the calls out (Control: the controller, or a double in
// tests). Its Go client is package client; people use `symphony model` and `symphony plan`.
//
//	client --JSON over HTTP/1.1--> Handler --decode, check--> Control --> store
//
//	GET    /v1/models?after=NAME&limit=N&state=failed    names in order, a page at a time
//	GET    /v1/models/NAME                               ?wait=30s&since=REV: when it has changed
//	DELETE /v1/models/NAME
//	PUT    /v1/models/NAME/versions/V                    {"source", "digest", "bytes", "settings"}
//	DELETE /v1/models/NAME/versions/V
//	PUT    /v1/models/NAME/versions/V/files              {"source", "digest", "bytes"}: other files, where it is not served
//	PATCH  /v1/models/NAME/settings                      {"slo", "max_batch", "drop_policy", "device_types"}
//	PATCH  /v1/models/NAME/versions/V/settings           likewise, for one version
//	PUT    /v1/models/NAME/policy                        {"kind": "latest|all|listed", ...}
//	PUT    /v1/models/NAME/shares                        {"shares": [{"version", "weight"}]}
//	POST   /v1/models/NAME/rollback                      to the shares before
//	POST   /v1/models/NAME/load, /unload                 whether it is to be served at all
//	GET    /v1/plan, /v1/plan/history, /v1/plan/diff     in force; the last ones; what an epoch would change
//	POST   /v1/plan/apply, /v1/plan/pause, /v1/plan/resume
//	GET    /v1/state                                     who leads, whether the store answers
//	GET    /v1/advice                                    how many GPUs there should be
//
// Rules:
//
//  1. A call changes what is wanted (or reads); what becomes of it shows in Model.Versions.
//     Nothing waits for a roll-out but GET with wait.
//  2. A call that is repeated has the effect of one: PUT of what is there, DELETE of what is not
//     (404), load of what is loaded. Rollback is the exception, and says "unknown" when its
//     caller must look before asking again.
//  3. Every error is an Error as JSON, with the field that is wrong and what to do. Unknown
//     fields and parameters are refused with the nearest known one.
//  4. Bodies, names, counts and waiting calls are bounded: see the limits in check.go.
//  5. With a token every call needs "Authorization: Bearer TOKEN". Calls from web pages (an
//     Origin header) are refused always: a browser on this host is not its user.
package api
