package memstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// DefaultStateInterval is how much a kill may lose when StateOptions name nothing.
const DefaultStateInterval = time.Second

// StateOptions say where a store keeps what it counts, and how.
type StateOptions struct {
	// Path names the file. It is made with mode 0600, since it holds every key, and
	// so API keys, in the clear. Path + ".next" is its successor while that is being
	// written, and Path + ".lock" keeps other processes away.
	Path string

	// Interval is how much the file may lag behind: what a kill of the process
	// loses at most. 0 means DefaultStateInterval. What changed is written at
	// three quarters of it.
	Interval time.Duration

	// Logger gets what goes wrong, and when it is over. Default slog.Default().
	Logger *slog.Logger
}

// A StateError is a state file that cannot be used. It was not changed; when Kept
// is set it has been moved there, and a second Open begins without it.
type StateError struct {
	Path string
	Kept string // empty when the file is still at Path
	Err  error
}

func (e *StateError) Error() string {
	if e.Kept == "" {
		return fmt.Sprintf("state file %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("state file %s: %v; kept as %s", e.Path, e.Err, e.Kept)
}

func (e *StateError) Unwrap() error { return e.Err }

// ErrStateInUse is a state file that another process has open.
var ErrStateInUse = errors.New("another process uses it: give each its own file")

// StateStats are figures about a state file.
type StateStats struct {
	// Restored is how many keys were found in it, and Expired how many more were
	// not kept because they had become fresh meanwhile.
	Restored, Expired int64
	// Errors is how many times it could not be written; Failing reports whether
	// the last attempt failed.
	Errors  int64
	Failing bool
	// Bytes is its size, and Written when it was last brought up to date.
	Bytes   int64
	Written time.Time
}

// Open makes a store that counts in memory and keeps it in a file: it begins with
// what the file holds, and writes what changes, one step behind and outside of
// decisions. Close it: that writes the rest and ends its goroutine.
//
// A file that is damaged, or in the format of another version, is moved aside
// under a name that says so; the error is then a *StateError with Kept set, and
// calling Open again begins with nothing. A file that cannot be read, that
// another process uses, or that is none (a directory, a device) is an error too. One that cannot be written is not: the
// store then counts in memory, says so in the log and in StateStats, and tries
// again until it can.
//
// Time that passed between the processes counts, by the wall clock; if that was
// set back, no time has passed.
func Open(o Options, so StateOptions) (*Store, error) {
	if so.Interval <= 0 {
		so.Interval = DefaultStateInterval
	}
	if so.Logger == nil {
		so.Logger = slog.Default()
	}
	if info, err := os.Stat(filepath.Dir(so.Path)); err != nil {
		return nil, &StateError{Path: so.Path, Err: fmt.Errorf("its directory: %w", err)}
	} else if !info.IsDir() {
		return nil, &StateError{Path: so.Path, Err: errors.New("its directory is a file")}
	}
	s := New(o)
	f := newStateFile(s, so)
	for _, path := range []string{so.Path, f.next()} {
		if err := regular(path); err != nil {
			return nil, &StateError{Path: path, Err: err}
		}
	}
	if err := f.takeLock(); errors.Is(err, ErrStateInUse) {
		return nil, &StateError{Path: so.Path, Err: err}
	}
	if err := f.load(); err != nil {
		f.unlock()
		return nil, err
	}
	s.file = f
	f.start()
	return s, nil
}

// regular refuses what is there and no file that the store can have made. A device,
// say, would be found damaged and moved aside, which root may do.
func regular(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return nil // what else is wrong with it is told when it is opened
	}
	kind := "a device, pipe or socket"
	if info.IsDir() {
		kind = "a directory"
	}
	return fmt.Errorf("it is %s: name a file that holds nothing else, such as /var/lib/caudal/state; it need not exist yet", kind)
}

// Sync writes what has changed since the last write, and returns when it is in
// the file. Without a state file it does nothing.
func (s *Store) Sync() error {
	if s.file == nil {
		return nil
	}
	return s.file.flush()
}

// StateStats gives figures about the state file; zeros without one.
func (s *Store) StateStats() StateStats {
	if s.file == nil {
		return StateStats{}
	}
	return s.file.stats()
}

// load fills the store with what the file holds.
func (f *stateFile) load() error {
	for n := range f.store.shards {
		f.store.shards[n].journal = newJournal(&f.store.shards[n], &f.scopes)
	}
	at := f.store.clock.Now()
	for _, paths := range [][]string{{f.next()}, {f.o.Path, f.next()}} {
		// A successor that is whole stands alone; the process died before it was
		// renamed. Else it belongs behind the file, if it is of the same process.
		done, err := f.loadChain(paths)
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	f.figures.Expired = int64(f.store.dropFresh(at))
	f.figures.Restored = int64(f.store.Len())
	return nil
}

// opened is a file of a chain, with what the survey told.
type opened struct {
	path string
	file *os.File
	survey
}

func (f *stateFile) loadChain(paths []string) (done bool, err error) {
	var chain []opened
	defer func() {
		for _, c := range chain {
			_ = c.file.Close() // it was only read
		}
	}()
	for n, path := range paths {
		c, err := f.openOld(path)
		if errors.Is(err, fs.ErrNotExist) {
			if n == 0 {
				return false, nil
			}
			continue
		}
		if err != nil {
			return false, err
		}
		chain = append(chain, c)
	}
	if !chain[0].complete {
		if chain[0].path == f.next() {
			return false, nil
		}
		return false, f.keepAside(chain[0].path, &damage{chain[0].size(), "the file is cut off before it is whole"})
	}
	if len(chain) == 2 && chain[1].session != chain[0].session {
		_ = chain[1].file.Close() // it was only read
		chain = chain[:1]
	}
	return true, f.loadFiles(chain)
}

func (f *stateFile) loadFiles(chain []opened) error {
	last := chain[len(chain)-1]
	if last.blocks == 0 {
		last = chain[0]
	}
	l := newLoader(f.store, last.last)
	for _, c := range chain {
		if c.torn > 0 {
			f.o.Logger.Warn("the state file ends in the middle of a write: what was charged just before is lost",
				"file", c.path, "bytes", c.torn)
		}
		if err := l.read(c.file, c.survey); err != nil {
			return f.keepAside(c.path, err)
		}
	}
	return nil
}

// size tells where what is missing would be.
func (c *opened) size() int64 {
	info, err := c.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

func (f *stateFile) openOld(path string) (opened, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return opened{}, err
	}
	if err != nil {
		return opened{}, &StateError{Path: path, Err: err}
	}
	c := opened{path: path, file: file}
	if c.survey, err = surveyFile(file); err == nil {
		return c, nil
	}
	_ = file.Close() // it was only read
	if info, statErr := os.Stat(path); path == f.next() && statErr == nil && info.Size() < headerSize {
		return opened{}, fs.ErrNotExist // its first write did not end
	}
	return opened{}, f.keepAside(path, err)
}

// keepAside moves a file that cannot be used to a name that says why, if it is
// the file's fault.
func (f *stateFile) keepAside(path string, reason error) error {
	e := &StateError{Path: path, Err: reason}
	word := "damaged"
	var version otherVersion
	var wrong *damage
	switch {
	case errors.As(reason, &version) && version > stateVersion:
		word = "newer"
	case errors.As(reason, &version):
		word = "older"
	case !errors.As(reason, &wrong):
		return e // it could not be read; perhaps it can tomorrow
	default:
		e.Err = fmt.Errorf("it is damaged: %w", reason)
	}
	kept := path + "." + word + "-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(path, kept); err != nil {
		e.Err = fmt.Errorf("%w; and it cannot be moved aside: %w", e.Err, err)
		return e
	}
	e.Kept = kept
	return e
}
