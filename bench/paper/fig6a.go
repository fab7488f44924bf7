package paper

func fig6a(*Session) error { return errNotWritten }
