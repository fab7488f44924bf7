package transport

import "fmt"

// CheckReads finds what a transport could not bring: a Dst of another length
// than the input, or an input beyond what the link accepts as a payload.
func CheckReads(ops []ReadOp, payloadMax int) error {
	for i := range ops {
		if n := int(ops[i].Input.Length); len(ops[i].Dst) != n || n > payloadMax {
			return fmt.Errorf("%w: READ of %d bytes into a buffer of %d, at most %d", ErrProtocol, n, len(ops[i].Dst), payloadMax)
		}
	}
	return nil
}

// RefuseReads tells every op that it was not sent.
func RefuseReads(ops []ReadOp, err error) error {
	for i := range ops {
		ops[i].Done(ops[i].Token, err)
	}
	return err
}
