package memstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

// WithVersion gives a state file with another version in its header.
func WithVersion(data []byte, version uint32) []byte {
	var id session
	copy(id[:], data[20:])
	return append(encodeHeader(version, id), data[headerSize:]...)
}

// WithChangedPayload gives a state file with a byte of a payload changed, and the
// checksum made to fit.
func WithChangedPayload(data []byte, r *rand.Rand) []byte {
	data = bytes.Clone(data)
	var blocks []int
	for at := headerSize; at < len(data); at += blockHead + int(binary.LittleEndian.Uint32(data[at:])) + blockEnd {
		if binary.LittleEndian.Uint32(data[at:]) > 0 {
			blocks = append(blocks, at)
		}
	}
	at := blocks[r.IntN(len(blocks))]
	length := int(binary.LittleEndian.Uint32(data[at:]))
	payload := data[at+blockHead : at+blockHead+length]
	for range 1 + r.IntN(3) {
		payload[r.IntN(length)] = byte(r.Uint32())
	}
	binary.LittleEndian.PutUint32(data[at+blockHead+length:], crc32.Checksum(payload, castagnoli))
	return data
}

// disk is a file that can be full, or fail to sync.
type disk struct {
	*os.File
	room   *int64 // bytes that may still be written; negative for no end
	unsync *bool
}

func (d disk) WriteAt(b []byte, at int64) (int, error) {
	if *d.room < 0 {
		return d.File.WriteAt(b, at)
	}
	n := min(int64(len(b)), *d.room)
	*d.room -= n
	if _, err := d.File.WriteAt(b[:n], at); err != nil || n == int64(len(b)) {
		return int(n), err
	}
	return int(n), syscall.ENOSPC
}

func (d disk) Sync() error {
	if *d.unsync {
		return syscall.EIO
	}
	return d.File.Sync()
}

// faultyState is a store on a disk with faults to be set.
type faultyState struct {
	*Store
	room   int64
	unsync bool
	log    bytes.Buffer
}

func openFaulty(t *testing.T, path string) *faultyState {
	t.Helper()
	s := &faultyState{room: -1}
	var err error
	s.Store, err = Open(Options{}, StateOptions{Path: path, Interval: 1000 * time.Hour, Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	wrap := func(f writableFile) writableFile { return disk{f.(*os.File), &s.room, &s.unsync} }
	s.file.create = func(path string) (writableFile, error) {
		f, err := createFile(path)
		if err != nil {
			return nil, err
		}
		return wrap(f), nil
	}
	s.file.current.file = wrap(s.file.current.file)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *faultyState) charge(t *testing.T, from, to int) {
	t.Helper()
	l, err := caudal.PerDay(3).Compile("", "quota")
	if err != nil {
		t.Fatal(err)
	}
	for n := from; n < to; n++ {
		if d, err := s.TakeKey(t.Context(), caudal.Instant{}, l, fmt.Sprint("key ", n), 1); err != nil || !d.Allowed {
			t.Fatalf("charging key %d = %+v, %v", n, d, err)
		}
	}
}

// wantInFile copies the files as a kill would leave them, and opens the copy.
func wantInFile(t *testing.T, path string, want int) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "state")
	for _, end := range []string{"", ".next"} {
		data, err := os.ReadFile(path + end)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+end, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(Options{}, StateOptions{Path: copied, Interval: 1000 * time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.StateStats().Restored; got != int64(want) {
		t.Errorf("the file holds %d keys, want %d", got, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := openFaulty(t, path)
	s.charge(t, 0, 100)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int64{0, 10, 500} { // also in the middle of a block
		s.room = room
		before := s.StateStats().Errors
		s.charge(t, 100, 3000)
		for range 3 {
			if err := s.Sync(); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Sync on a full disk = %v", err)
			}
			wantInFile(t, path, 100)
		}
		if st := s.StateStats(); st.Errors != before+3 || !st.Failing {
			t.Errorf("stats = %+v, want 3 more errors than %d", st, before)
		}
		s.room = -1
		if err := s.Sync(); err != nil {
			t.Fatalf("Sync with room again = %v", err)
		}
		wantInFile(t, path, 3000)
		for n := range 2900 {
			if err := s.Reset(t.Context(), mustCompile(t), fmt.Sprint("key ", 100+n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		wantInFile(t, path, 100)
	}
	if n := strings.Count(s.log.String(), "level=ERROR"); n != 3 {
		t.Errorf("%d errors in the log, want one for each time:\n%s", n, s.log.String())
	}
	if n := strings.Count(s.log.String(), "is written again"); n != 3 {
		t.Errorf("%d recoveries in the log, want 3", n)
	}
}

func mustCompile(t *testing.T) *caudal.Compiled {
	t.Helper()
	l, err := caudal.PerDay(3).Compile("", "quota")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestManyKeysGoWhileNothingCanBeWritten: what went is not remembered one by one
// without end, and is gone in the file all the same.
func TestManyKeysGoWhileNothingCanBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := openFaulty(t, path)
	s.charge(t, 0, 5000)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for n := range s.shards {
		s.shards[n].journal.gone = make([]uint32, maxGone+100) // numbers of no key
	}
	for n := range 5000 {
		if err := s.Reset(t.Context(), mustCompile(t), fmt.Sprint("key ", n)); err != nil {
			t.Fatal(err)
		}
	}
	renewed := 0
	for n := range s.shards {
		if j := s.shards[n].journal; j.renewed && j.gone == nil {
			renewed++
		}
	}
	if renewed < shardCount/2 {
		t.Errorf("%d shards are to be written whole, want nearly all %d", renewed, shardCount)
	}
	s.charge(t, 0, 10)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	wantInFile(t, path, 10)
}

// TestWhatCannotBeSyncedIsWrittenAnew: after a failed sync nobody knows what is on
// the disk.
func TestWhatCannotBeSyncedIsWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := openFaulty(t, path)
	s.charge(t, 0, 50)
	s.unsync = true
	if err := s.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Sync = %v", err)
	}
	s.charge(t, 50, 80)
	s.unsync = false
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	wantInFile(t, path, 80)
}

func TestARemovedFileIsWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := openFaulty(t, path)
	s.charge(t, 0, 50)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.charge(t, 50, 60)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	wantInFile(t, path, 60)
}

// TestTheFileIsReplacedWhenItHasGrown, and can be read at each step of it.
func TestTheFileIsReplacedWhenItHasGrown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := openFaulty(t, path)
	s.charge(t, 0, 4000)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int64{0, 64, 1000, 60_000, 90_000, -1} {
		s.file.current.image = -growLeast // due now
		s.room = room
		s.charge(t, 4000, 4100)
		err := s.Sync()
		if (err != nil) != (room >= 0) {
			t.Fatalf("with room for %d bytes: Sync = %v", room, err)
		}
		if err == nil {
			wantInFile(t, path, 4100)
			continue
		}
		s.room = -1
		for n := 4000; n < 4100; n++ {
			if err := s.Reset(t.Context(), mustCompile(t), fmt.Sprint("key ", n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		wantInFile(t, path, 4000)
	}
	if size := s.file.current.size; size > 4<<20 {
		t.Errorf("the file has %d bytes after it was replaced", size)
	}
}

// TestAReadOnlyDirectory: the store counts without its file, and writes it as soon
// as it can.
func TestAReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	s := openFaulty(t, path)
	s.charge(t, 0, 10)
	denied := true
	create := s.file.create
	s.file.create = func(path string) (writableFile, error) {
		if denied {
			return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EROFS}
		}
		return create(path)
	}
	s.file.abandon()
	for range 2 {
		if err := s.Sync(); !errors.Is(err, syscall.EROFS) {
			t.Fatalf("Sync = %v", err)
		}
	}
	s.charge(t, 10, 20)
	denied = false
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	wantInFile(t, path, 20)
}

func TestOpenInAReadOnlyDirectory(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state")
	s, err := Open(Options{}, StateOptions{Path: path, Interval: 1000 * time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	defer s.Close()
	if st := s.StateStats(); !st.Failing || st.Errors != 1 {
		t.Errorf("stats = %+v, want one error", st)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Errorf("Sync when it can be written = %v", err)
	}
}
