package memstore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// stateFile writes what a store counts to a file. One goroutine does so now and
// then; Sync and Close do the same in their callers.
type stateFile struct {
	store  *Store
	o      StateOptions
	scopes scopes

	done, ended chan struct{}

	mu       sync.Mutex // held while writing
	lock     *os.File
	current  *output // what is appended to; nil while there is none that is whole
	nextFile *output // its successor, when that is being written
	session  session
	buf      []byte
	closed   bool

	figuresMu sync.Mutex
	figures   StateStats

	// Tests set these.
	growLeast int64
	create    func(path string) (writableFile, error)
}

// writableFile is what is asked of a file; tests give ones that fail.
type writableFile interface {
	io.WriterAt
	io.Closer
	Sync() error
	Stat() (os.FileInfo, error)
}

// output is a file that is being written.
type output struct {
	file    writableFile
	path    string
	size    int64
	image   int64 // its size when all images were in it
	number  uint64
	scopes  int    // how many are in it
	shard   int    // the next to be imaged; shardCount when all are
	pending []byte // blocks that are not written yet
}

const (
	// blockBytes is the size at which a block is written.
	blockBytes = 256 << 10
	// A file is replaced by one without what is outdated when it is growFactor
	// times as large as it was when new, and growLeast more.
	growFactor = 3
	growLeast  = 64 << 20
)

func newStateFile(s *Store, o StateOptions) *stateFile {
	return &stateFile{store: s, o: o, done: make(chan struct{}), ended: make(chan struct{}), growLeast: growLeast, create: createFile}
}

func createFile(path string) (writableFile, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (f *stateFile) next() string { return f.o.Path + ".next" }

// takeLock keeps other processes away from the file.
func (f *stateFile) takeLock() error {
	if f.lock != nil {
		return nil
	}
	file, err := os.OpenFile(f.o.Path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	got, err := lockFile(file)
	if err == nil && !got {
		err = ErrStateInUse
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.lock = file
	return nil
}

func (f *stateFile) unlock() {
	if f.lock != nil {
		_ = f.lock.Close() // nothing was written to it
		f.lock = nil
	}
}

// start writes the file anew, so that it is of this process, and goes on writing.
func (f *stateFile) start() {
	_ = f.flush() // told in the log and in the figures; it is tried again
	go func() {
		defer close(f.ended)
		ticker := time.NewTicker(max(f.o.Interval*3/4, time.Millisecond))
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = f.flush() // as above
			case <-f.done:
				return
			}
		}
	}()
}

// flush writes all that is newer than the file.
func (f *stateFile) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed()
	}
	err := f.write()
	f.report(err)
	return err
}

// close writes the rest and ends the goroutine. No call is decided afterwards.
func (f *stateFile) close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()
	close(f.done)
	<-f.ended
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.store.shards {
		sh := &f.store.shards[n]
		sh.mu.Lock()
		sh.journal.closed, sh.attend = true, true
		sh.mu.Unlock()
	}
	err := f.write()
	if err == nil {
		err = f.current.block(f.buffer(), flagClosed, f.store)
	}
	if err == nil {
		err = f.current.file.Sync()
	}
	f.report(err)
	for _, o := range []*output{f.current, f.nextFile} {
		if o != nil {
			err = errors.Join(err, o.file.Close())
		}
	}
	f.unlock()
	if err != nil {
		return &StateError{Path: f.o.Path, Err: err}
	}
	return nil
}

// write brings the file up to date, and begins and ends its successor when it is
// due.
func (f *stateFile) write() error {
	if err := f.takeLock(); err != nil {
		return err
	}
	if f.current != nil && f.nextFile == nil && !f.current.there() {
		f.abandon() // somebody removed it: what is written now would be lost
	}
	if f.nextFile == nil && (f.current == nil || f.current.size > growFactor*f.current.image+f.growLeast) {
		if err := f.begin(); err != nil {
			if f.current == nil {
				return err
			}
			return errors.Join(err, f.append(f.current))
		}
	}
	if f.nextFile == nil {
		return f.append(f.current)
	}
	if err := f.writeImages(f.nextFile); err != nil {
		return err
	}
	return f.replace()
}

// begin opens the successor. Everything is written to it from here on; behind the
// present file it is good even before it is whole.
func (f *stateFile) begin() error {
	if f.current == nil {
		if _, err := rand.Read(f.session[:]); err != nil {
			return err
		}
	}
	file, err := f.create(f.next())
	if err != nil {
		return err
	}
	f.nextFile = &output{file: file, path: f.next(), pending: encodeHeader(stateVersion, f.session)}
	return nil
}

// writeImages writes the image of each shard that has none in the file yet, and
// meanwhile, now and then, what changes in the others.
func (f *stateFile) writeImages(o *output) error {
	first := (*stateFile).append
	if f.current == nil && o.shard == 0 {
		first = (*stateFile).begun // the images hold all there is
	}
	if err := first(f, o); err != nil {
		return err
	}
	b, written := f.buffer(), time.Now()
	for o.shard < shardCount {
		sh := &f.store.shards[o.shard]
		o.shard++ // also when this fails: what is left is written as changes are
		var err error
		if b, err = f.collectInto(o, sh.image(b), sh); err != nil {
			return err
		}
		if time.Since(written) > f.o.Interval/4 {
			if err := f.finish(o, b); err != nil {
				return err
			}
			if err := f.append(o); err != nil {
				return err
			}
			b, written = f.buffer(), time.Now()
		}
	}
	return f.finish(o, b)
}

// begun writes the header.
func (f *stateFile) begun(o *output) error { return o.retry() }

// replace puts the successor, which is whole, in the file's place.
func (f *stateFile) replace() error {
	o := f.nextFile
	if o.image == 0 {
		if err := o.block(f.buffer(), flagComplete, f.store); err != nil {
			return err
		}
		o.image = o.size
	}
	if err := f.sync(o); err != nil {
		return err
	}
	if err := os.Rename(f.next(), f.o.Path); err != nil {
		return err
	}
	if f.current != nil {
		_ = f.current.file.Close() // the successor has all of it
	}
	o.path = f.o.Path
	f.current, f.nextFile = o, nil
	return syncDirectory(filepath.Dir(f.o.Path))
}

// append writes what has changed since the last write.
func (f *stateFile) append(o *output) error {
	b := f.buffer()
	for n := range f.store.shards {
		var err error
		if b, err = f.collectInto(o, b, &f.store.shards[n]); err != nil {
			return err
		}
	}
	if err := f.finish(o, b); err != nil {
		return err
	}
	return f.sync(o)
}

func (f *stateFile) sync(o *output) error {
	if err := o.file.Sync(); err != nil {
		// What the operating system has of the file is not known: begin anew.
		f.abandon()
		return err
	}
	return nil
}

// abandon gives up the files of this session; the next write begins another.
func (f *stateFile) abandon() {
	for _, o := range []*output{f.current, f.nextFile} {
		if o != nil {
			_ = o.file.Close() // it is given up
		}
	}
	f.current, f.nextFile = nil, nil
}

// buffer gives the beginning of a payload, in memory that is used again and again.
func (f *stateFile) buffer() []byte {
	if f.buf == nil {
		f.buf = make([]byte, blockBytes+blockBytes/4)
	}
	return f.buf[:blockSpace]
}

// collectInto appends what is newer in a shard, and writes full blocks.
func (f *stateFile) collectInto(o *output, b []byte, sh *shard) ([]byte, error) {
	rebuilds := -1
	for i := 0; i >= 0; {
		if len(b) >= blockBytes || len(o.pending) > 0 {
			if err := f.finish(o, b); err != nil {
				return nil, err
			}
			b = f.buffer()
		}
		b, i = sh.collect(b, i, &rebuilds)
	}
	return b, nil
}

// finish writes what is in b, if anything, behind what could not be written
// before.
func (f *stateFile) finish(o *output, b []byte) error {
	if len(b) == blockSpace {
		return o.retry()
	}
	return o.block(b, 0, f.store)
}

// block writes a payload. When it cannot be written it is kept, and written
// before the next.
func (o *output) block(b []byte, flags uint32, s *Store) error {
	if err := o.retry(); err != nil {
		o.keep(b, flags, s)
		return err
	}
	o.keep(b, flags, s)
	return o.retry()
}

// keep seals a payload, behind a block with the scopes that are new in it.
func (o *output) keep(b []byte, flags uint32, s *Store) {
	if names := s.file.scopes.from(o.scopes); len(names) > 0 {
		list := make([]byte, blockSpace, 1<<10)
		for _, name := range names {
			list = binary.AppendUvarint(append(list, recordScope), uint64(o.scopes))
			list = append(binary.AppendUvarint(list, uint64(len(name))), name...)
			o.scopes++
		}
		o.seal(list, 0, s)
	}
	o.seal(b, flags, s)
}

func (o *output) seal(b []byte, flags uint32, s *Store) {
	h := block{flags: flags, number: o.number, at: s.clock.Now()}
	o.number++
	o.pending = append(o.pending, h.seal(b)...)
}

// retry writes what is pending. It always begins at the same place, so that what
// a failed write left there is written over.
func (o *output) retry() error {
	if len(o.pending) == 0 {
		return nil
	}
	if _, err := o.file.WriteAt(o.pending, o.size); err != nil {
		return err
	}
	o.size += int64(len(o.pending))
	o.pending = o.pending[:0]
	return nil
}

// there reports whether the file is still the one under its name.
func (o *output) there() bool {
	mine, err := o.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(o.path)
	return err == nil && os.SameFile(mine, named)
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	// Some systems cannot sync a directory; the rename itself has been done.
	_ = d.Sync()
	return d.Close()
}

// report counts a failed write, and logs the first and the end of a row of them.
func (f *stateFile) report(err error) {
	f.figuresMu.Lock()
	failing := f.figures.Failing
	f.figures.Failing = err != nil
	if err != nil {
		f.figures.Errors++
	} else {
		f.figures.Written = time.Now()
	}
	f.figures.Bytes = 0
	for _, o := range []*output{f.current, f.nextFile} {
		if o != nil {
			f.figures.Bytes += o.size
		}
	}
	f.figuresMu.Unlock()
	switch {
	case err != nil && !failing:
		f.o.Logger.Error("the state file cannot be written: decisions go on, and a restart would forget what is charged now",
			"file", f.o.Path, "error", err)
	case err == nil && failing:
		f.o.Logger.Info("the state file is written again", "file", f.o.Path)
	}
}

func (f *stateFile) stats() StateStats {
	f.figuresMu.Lock()
	defer f.figuresMu.Unlock()
	return f.figures
}
