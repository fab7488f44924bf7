// Package schema is what the control plane keeps in etcd: the documents, their keys, their
// bounds, and how a data directory of an earlier version becomes one of this version. It is
// a core: documents go in, keys and bytes come out, and package store carries them.
//
//	<prefix>schema                 {"version": 1}
//	<prefix>1/models/NAME          what is wanted of a model: versions, settings, shares
//	<prefix>1/observed/NAME/VER    what became of it: state, reason, progress
//	<prefix>1/backends/NAME        a backend and its devices, while its lease lives
//	<prefix>1/loads/NAME/VER       measured rate and need
//	<prefix>1/profiles/NAME/VER/TYPE   measured latency profile and memory
//	<prefix>1/plans/EPOCH          a plan's head; its sub-clusters are parts/EPOCH/NAME
//	<prefix>1/controls/NAME        what people switched: epochs paused
//	<prefix>1/leader               who leads, while its lease lives
//
// Invariants:
//
//  1. All documents of version n lie below "<prefix>n/", and the schema's key says which n
//     holds. So a migration writes beside what it reads, and one transaction on one key
//     makes all of it hold, or nothing.
//  2. A document is JSON with a bound in bytes, and a kind has a bound in documents (Kinds).
//     Check refuses what no reader could use, before it is written.
//  3. Names may be anything that people write; in keys all but letters, digits, '.', '_' and
//     '-' are escaped (Escape), so no name leads out of its kind.
//  4. Fields are only ever added within a version, with a zero value that means what was
//     meant before; anything else is a new version and a migration.
//
// Instants are Unix nanoseconds: they cross hosts and lives, and are for people.
package schema

// Version is the version of the schema that this program reads and writes.
const Version = 1
