// Package uie2e tests the live picture in a real browser: headless Chromium, driven by its debugging
// protocol over a pipe, before a scheduler, a backend with 64 emulated GPUs and load as processes of
// their own. It takes the pictures of the README.
//
// make test-ui runs it (Debian's package chromium); go test alone skips it.
package uie2e
