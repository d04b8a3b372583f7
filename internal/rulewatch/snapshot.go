package rulewatch

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"github.com/caudal-dev/caudal/rule"
)

// snapshot is what the files looked like at one time, cheap to take: names,
// sizes, times and inodes, but not what they hold.
type snapshot struct {
	files map[string]os.FileInfo
	err   string // when the files could not be listed
}

func look(paths []string) snapshot {
	names, err := rule.Files(paths...)
	if err != nil {
		return snapshot{err: err.Error()}
	}
	s := snapshot{files: make(map[string]os.FileInfo, len(names))}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return snapshot{err: err.Error()}
		}
		s.files[name] = info
	}
	return s
}

// same reports whether nothing seems to have happened between two looks.
func (s snapshot) same(t snapshot) bool {
	if s.err != t.err || len(s.files) != len(t.files) {
		return false
	}
	for name, a := range s.files {
		b, ok := t.files[name]
		if !ok || a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime()) || a.Mode() != b.Mode() || !os.SameFile(a, b) {
			return false
		}
	}
	return true
}

// lacks reports whether a file of the good snapshot has gone or been emptied, as
// happens for a moment while a tool writes it anew.
func (s snapshot) lacks(good snapshot) bool {
	if s.err != "" {
		return good.err == ""
	}
	for name, was := range good.files {
		is, ok := s.files[name]
		if !ok || is.Size() == 0 && was.Size() > 0 {
			return true
		}
	}
	return false
}

// contents gives a hash of what all files hold, or of why they cannot be read.
func contents(paths []string) string {
	names, err := rule.Files(paths...)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	h := sha256.New()
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return "unreadable: " + err.Error()
		}
		fmt.Fprintf(h, "%q\n", name)
		n, err := io.Copy(h, io.LimitReader(f, maxHashed))
		_ = f.Close() // only read
		if err != nil {
			return "unreadable: " + err.Error()
		}
		fmt.Fprintf(h, "\n%d\n", n)
	}
	return string(h.Sum(nil))
}

// maxHashed is more than a rule file may hold.
const maxHashed = 16 << 20
