package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxErrors is how many errors one load reports. Beyond it a file is so wrong
// that more lines would only hide the first.
const MaxErrors = 20

// Position is a place in a rule file. Line and Column count from 1; a Line of 0
// means the file as a whole.
type Position struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String gives "file:line:column", or the file alone.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

func (p Position) compare(q Position) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// Error is one mistake in a rule file.
type Error struct {
	// Position is where the mistake stands.
	Position Position
	// Path is the key's path in the file, such as
	// "descriptors[1].rate_limit.unit". Empty for the file as a whole.
	Path string
	// What says what is wrong.
	What string
	// Hint says how to mend it. It may be empty.
	Hint string
}

// Error gives "file:line:column: path: what (hint)" in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Position.String() + ": ")
	if e.Path != "" {
		b.WriteString(shortPath(e.Path) + ": ")
	}
	b.WriteString(e.What)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// shortPath leaves out the middle of a path that would fill a screen.
func shortPath(path string) string {
	const most, ends = 160, 60
	if len(path) <= most {
		return path
	}
	return strings.ToValidUTF8(path[:ends], "") + "..." + strings.ToValidUTF8(path[len(path)-ends:], "")
}

// Errors is all that a load found wrong, at most MaxErrors, in order of
// position. Load returns it as an error; errors.As finds it.
type Errors []*Error

// Error gives one mistake per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single errors.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// add keeps an error if there is room.
func (e *Errors) add(err *Error) {
	if !e.full() {
		*e = append(*e, err)
	}
}

func (e Errors) full() bool { return len(e) >= MaxErrors }

// err gives the sorted list as an error, and nil when it is empty.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *Error) int { return a.Position.compare(b.Position) })
	return e
}

// Level says how much a Warning matters.
type Level uint8

const (
	// LevelWarning is for what should be mended; caudal check --strict fails on it.
	// The zero value.
	LevelWarning Level = iota
	// LevelNote is for what may well be meant, and is good to know.
	LevelNote
)

var levelNames = [...]string{"warning", "note"}

// String gives the word that messages use.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "unknown"
}

// MarshalText gives the same word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Warning is something in a rule file that works, but probably not as its author
// wishes.
type Warning struct {
	// Level says how much it matters.
	Level Level `json:"level"`
	// Code names the kind of warning for machines, such as
	// "shared-counter-lockout". Codes do not change.
	Code string `json:"code"`
	// Position and Path say where.
	Position Position `json:"position"`
	Path     string   `json:"path,omitempty"`
	// What says what the rule does, Why what is bad about it, Mend what to write
	// instead.
	What string `json:"what"`
	Why  string `json:"why"`
	Mend string `json:"mend"`
}

// String gives "file:line:column: path: warning: what: why; mend [code]" in one
// line.
func (w Warning) String() string {
	var b strings.Builder
	b.WriteString(w.Position.String() + ": ")
	if w.Path != "" {
		b.WriteString(w.Path + ": ")
	}
	fmt.Fprintf(&b, "%s: %s: %s; %s [%s]", w.Level, w.What, w.Why, w.Mend, w.Code)
	return b.String()
}

func sortWarnings(w []Warning) {
	slices.SortStableFunc(w, func(a, b Warning) int {
		return cmp.Or(a.Position.compare(b.Position), cmp.Compare(a.Level, b.Level), strings.Compare(a.Code, b.Code))
	})
}
