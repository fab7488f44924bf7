package executor

// Suspend takes the device out of service: what waits and what was launched is forgotten,
// and what comes is not taken. Nothing is said of it, neither answers nor reports: the
// scheduler, which is told next, queues it again. What the device still executes goes
// nowhere.
func (e *Executor) Suspend() {
	e.mu.Lock()
	e.suspended = true
	waiting := e.orders
	e.orders = nil
	for _, o := range e.launched {
		o.forgotten = true
	}
	e.mu.Unlock()
	for _, o := range waiting {
		o.forget()
	}
}

// Resume puts it back.
func (e *Executor) Resume() {
	e.mu.Lock()
	e.suspended = false
	e.mu.Unlock()
}

// forget gives up an order that was not launched, once its READs have ended.
func (o *order) forget() {
	o.mu.Lock()
	o.dropped = true
	reading := o.reading > 0
	o.mu.Unlock()
	if !reading {
		o.recycle()
	}
}

// recycle makes an order that nobody refers to any more a spare.
func (o *order) recycle() {
	o.mu.Lock()
	o.holding = 1
	o.mu.Unlock()
	o.release()
}
