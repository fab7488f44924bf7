// Package shelf keeps files of models on a backend's disk, by digest: got once, from a folder
// or an object store, verified, and bounded in bytes.
//
//	source:  <url>/config.yaml, <url>/<version>/..., <url>/warmup/...
//	shelf:   <dir>/<digest>/files/config.yaml, .../files/<version>/...
//	         <dir>/<digest>/manifest         what the digest is of
//	         <dir>/part-...                  being fetched; removed at the next start
//	         <dir>/origins                   what came from where last
//
// # Rules
//
//  1. What lies under a digest is whole: it was fetched beside, verified, synced to disk, and
//     renamed. What a crash has left is removed at the start, and fetched anew.
//
//  2. Files that somebody has (Fetch, until release) stay. Of the others the least recently
//     used go first when room is needed.
//
//  3. A source is not trusted: only regular files below its folder, with names that are plain
//     paths, no more of them and no larger than the limits; what differs from the digest that was
//     ordered is thrown away.
//
//  4. Fetching never holds up serving: threads of the lowest priority, few at a time, at a
//     bounded rate if one is set. It ends with its context.
//
//  5. An order without a digest is for what is there now. While the source cannot be read, what
//     came from there last serves, and that is said: a backend that is restarted does not need
//     its sources.
//
// Where files are: a path or file:// is a folder of this host; s3://, gs:// and azblob:// are
// object stores, by gocloud.dev/blob, in programs built with the tag `cloud`.
package shelf
