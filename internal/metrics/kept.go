package metrics

import "sync"

// kept are counts by the name of a rule. They outlive reloads for as long as the
// rule does, or something is under way that it counts.
type kept[T any] struct {
	mu  sync.RWMutex
	all map[series]*T
}

// keep puts the counts of some names in the place of those before; what is busy
// stays, too.
func (k *kept[T]) keep(names []series, busy func(*T) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[series]*T{}
	for name, c := range k.all {
		if busy(c) {
			all[name] = c
		}
	}
	for _, name := range names {
		if all[name] = k.all[name]; all[name] == nil {
			all[name] = new(T)
		}
	}
	k.all = all
}

// of gives the counts of a name. One that a reload took away counts on.
func (k *kept[T]) of(name series) *T {
	if c := k.known(name); c != nil {
		return c
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.all[name]
	if c == nil {
		if c = new(T); k.all == nil {
			k.all = map[series]*T{}
		}
		k.all[name] = c
	}
	return c
}

// known gives the counts of a name, or nil.
func (k *kept[T]) known(name series) *T {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.all[name]
}

// each hands all counts to f.
func (k *kept[T]) each(f func(series, *T)) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for name, c := range k.all {
		f(name, c)
	}
}
