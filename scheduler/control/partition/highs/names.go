package highs

// Names of highs.wasm: the compiler shortens them, highs.js of the same package has the table. A test compares the signatures.
const (
	fnInit       = "v"
	fnMalloc     = "uc"
	fnCreate     = "F"
	fnPassMIP    = "V"
	fnSetSolved  = "Va"
	fnRun        = "N"
	fnGetSolved  = "Ea"
	fnSetDouble  = "ka"
	fnSetBool    = "ia"
	memoryName   = "u"
	importModule = "a"
)
