package memstore

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatIsNoStateFile: what the store cannot have made stays where it is, and the
// error says how to mend it.
func TestWhatIsNoStateFile(t *testing.T) {
	dir := t.TempDir()
	folder, socket, link := filepath.Join(dir, "folder"), filepath.Join(dir, "s"), filepath.Join(dir, "full")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{folder: "a directory"}
	if l, err := net.Listen("unix", socket); err == nil {
		t.Cleanup(func() { _ = l.Close() })
		paths[socket] = "socket"
	}
	if err := os.Symlink(os.DevNull, link); err == nil {
		paths[link] = "device"
	}
	for path, kind := range paths {
		s, err := Open(Options{}, StateOptions{Path: path})
		if err == nil {
			_ = s.Close()
		}
		wrong := new(StateError)
		if !errors.As(err, &wrong) || wrong.Kept != "" || !strings.Contains(err.Error(), kind) || !strings.Contains(err.Error(), "name a file") {
			t.Errorf("Open(%s) = %v, want a *StateError that says %q and how to mend it, and nothing moved", path, err, kind)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("after Open: %v, want it where it was", err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.lock")); err != nil || len(left) > 0 {
		t.Errorf("lock files are left: %v (%v)", left, err)
	}
}
