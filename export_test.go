package caudal

// WaitingKeys gives for how many keys somebody waits, for tests.
func WaitingKeys(l *Limiter) int {
	l.queues.mu.Lock()
	defer l.queues.mu.Unlock()
	return len(l.queues.m)
}
