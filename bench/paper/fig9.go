package paper

func fig9(*Session) error { return errNotWritten }
