package rulewatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caudal-dev/caudal/rule"
)

// Options are the settings of a Watcher. Paths and Loaded are required.
type Options struct {
	// Paths are the files and directories to load and watch.
	Paths []string
	// Rules says how they are read.
	Rules rule.Options

	// Loaded takes each good set, one call at a time. An error refuses the set, as
	// if it had not loaded: the last good one stays.
	Loaded func(Result) error
	// Failed is told why a set was refused. nil: nobody is.
	Failed func(error)

	// Debounce is how long the files must have been quiet before a change is taken
	// up. Default 100 ms.
	Debounce time.Duration
	// Grace is how long a file may be gone or empty before that counts. Default 1 s.
	Grace time.Duration
	// Poll is how often the files are looked at without a notice. Default 2 s.
	Poll time.Duration
	// NoNotices does without the kernel's notices, and only polls.
	NoNotices bool
}

// Result is a set of rules that has loaded.
type Result struct {
	Set      *rule.Set
	Warnings []rule.Warning
	// Changes are what is different in meaning from the set before; nil for the
	// first. Lowered are those of them that lower a limit more than tenfold.
	Changes []rule.Change
	Lowered []rule.Change
}

func (o Options) withDefaults() Options {
	if o.Debounce <= 0 {
		o.Debounce = 100 * time.Millisecond
	}
	if o.Grace <= 0 {
		o.Grace = time.Second
	}
	if o.Poll <= 0 {
		o.Poll = 2 * time.Second
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o
}

// Watcher watches rules. Make it with New. It is safe for concurrent use.
type Watcher struct {
	opts Options

	mu   sync.Mutex // one load at a time
	set  *rule.Set  // the last good set
	held string     // hash of what the files held when last read, good or bad
	seen snapshot   // of the same time
	good snapshot   // of the last good set
}

// New loads the rules and hands them to Loaded. When they do not load it gives an
// error beside the watcher, which can be run all the same: the rules come in force
// once they are mended.
func New(o Options) (*Watcher, error) {
	if len(o.Paths) == 0 {
		return nil, errors.New("rulewatch: no path to watch")
	}
	if o.Loaded == nil {
		return nil, errors.New("rulewatch: nobody takes the rules: set Loaded")
	}
	w := &Watcher{opts: o.withDefaults()}
	return w, w.Reload()
}

// Reload reads the rules now, whether or not they seem to have changed, and hands
// a good set on. The error says why a set was refused; the last good one stays.
func (w *Watcher) Reload() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.take(w.read())
}

// check takes the rules up if what the files hold has changed, and reports
// whether there is nothing left to do. A set that does not load may be a file that
// is still being written; it counts only when last is set.
func (w *Watcher) check(last bool) (done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.read()
	switch {
	case r.held == w.held:
		w.seen = r.seen // touched, but the same
	case r.err != nil && !last:
		return false
	default:
		_ = w.take(r) // reported to Failed
	}
	return true
}

// reading is one attempt to read the rules.
type reading struct {
	seen     snapshot
	held     string // hash of what the files held
	set      *rule.Set
	warnings []rule.Warning
	err      error
}

// maxAttempts bounds how often files are read again that change meanwhile.
const maxAttempts = 5

// read reads the rules. Files that change meanwhile are read again, so that what
// is noted as read is what was loaded.
func (w *Watcher) read() reading {
	var r reading
	for range maxAttempts {
		r = reading{seen: look(w.opts.Paths), held: contents(w.opts.Paths)}
		r.set, r.warnings, r.err = w.opts.Rules.Load(w.opts.Paths...)
		if contents(w.opts.Paths) == r.held {
			break
		}
	}
	return r
}

// take hands a good set on and reports a bad one. It must be called with mu held.
func (w *Watcher) take(r reading) error {
	w.seen, w.held = r.seen, r.held
	if r.err == nil {
		r.err = w.opts.Loaded(w.result(r.set, r.warnings))
	}
	if r.err != nil {
		w.opts.Failed(r.err)
		return r.err
	}
	w.set, w.good = r.set, r.seen
	return nil
}

func (w *Watcher) result(set *rule.Set, warnings []rule.Warning) Result {
	r := Result{Set: set, Warnings: warnings}
	if w.set == nil {
		return r
	}
	r.Changes = rule.Diff(w.set, set)
	for _, c := range r.Changes {
		if c.Drastic {
			r.Lowered = append(r.Lowered, c)
		}
	}
	return r
}

// changed reports whether the files look different from when they were read.
func (w *Watcher) changed() (now snapshot, changed, lacking bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = look(w.opts.Paths)
	return now, !now.same(w.seen), now.lacks(w.good)
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	notices := w.listen()
	defer notices.close()
	poll := time.NewTicker(w.opts.Poll)
	defer poll.Stop()
	for {
		// Watch first and then look: what changes after that is noticed, and what
		// changed before is seen, also in a directory that was made anew.
		notices.renew()
		if now, changed, _ := w.changed(); changed {
			w.settle(ctx, notices, now)
			if ctx.Err() == nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		case <-notices.events():
		}
	}
}

// settle takes a change up once the files have been quiet for Debounce, or for
// Grace when one is gone or empty or the set does not load.
func (w *Watcher) settle(ctx context.Context, notices *notices, last snapshot) {
	began := time.Now()
	quiet := time.NewTimer(w.opts.Debounce)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-notices.events():
			continue // what it is about shows when the timer ends
		case <-quiet.C:
		}
		now, changed, lacking := w.changed()
		overdue := time.Since(began) >= w.opts.Grace
		switch {
		case !changed:
			return
		case !now.same(last):
		case (!lacking || overdue) && w.check(overdue):
			return
		}
		last = now
		quiet.Reset(w.opts.Debounce)
	}
}
