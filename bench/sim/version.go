package sim

// CoreVersion numbers what a simulation depends on beside its configuration: the
// decisions of all schedulers, the arrivals, how this package counts, and which
// rates a search tries. Raise it when one of them changes. Kept results
// (bench/paper, `symphony sim --resume`) carry it, and those of another number
// are simulated again.
//
// TestCoreVersion fails when it should have been raised and was not.
//
// Rejected: the version of the program, which a plain `go build` does not know,
// and which another word in a document changes.
const CoreVersion = 26
