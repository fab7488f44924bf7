package paper

func fig12(*Session) error { return errNotWritten }
