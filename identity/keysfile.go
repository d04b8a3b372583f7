package identity

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A keys file has one key a line, each a JSON object; empty lines and lines that
// begin with # are left out:
//
//	# who may call the API
//	{"hash":"2bb80d53...","user":"acme","plan":"pro","limits":{"pro-day":50000}}
//
// hash is required; limits are other values of requests_per_unit, by the name of the
// limit. A member that is not known, stands twice or is no text is an
// error: a typing error must not take somebody's plan away.

// maxKeyLine bounds a line of a keys file.
const maxKeyLine = 8 << 10

// maxKeyErrors bounds how many mistakes of a file are told.
const maxKeyErrors = 20

// KeyError is one mistake in a keys file.
type KeyError struct {
	File         string
	Line, Column int
	What, Hint   string
}

// Error gives the place, what is wrong and how to mend it.
func (e *KeyError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s (%s)", e.File, e.Line, e.Column, e.What, e.Hint)
}

// LoadKeys reads a keys file. All of it loads, or nothing; the error joins one
// *KeyError for each mistake, 20 at most.
func LoadKeys(file string) (*Keys, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("identity: cannot read keys: %w", err)
	}
	defer f.Close()
	return ReadKeys(file, f)
}

// ReadKeys is LoadKeys for text from anywhere; the name is what errors call it.
func ReadKeys(name string, r io.Reader) (*Keys, error) {
	var b keysBuilder
	b.expect(sizeOf(r) / usualLine)
	var errs []error
	lines := bufio.NewReaderSize(r, maxKeyLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, errors.Join(append(errs, &KeyError{name, n, 1,
				fmt.Sprintf("the line is over %d bytes", maxKeyLine), "write one key a line"})...)
		}
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("identity: cannot read keys: %w", err)
		}
		if mistake := b.line(line); mistake != nil {
			mistake.File, mistake.Line = name, n
			if errs = append(errs, mistake); len(errs) == maxKeyErrors {
				break
			}
		}
		if err == io.EOF {
			break
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return b.done(), nil
}

// usualLine is about how long a line is.
const usualLine = 128

// sizeOf gives how many bytes there are to read, and 0 where that is not known.
func sizeOf(r io.Reader) int {
	switch r := r.(type) {
	case *os.File:
		if info, err := r.Stat(); err == nil {
			return int(info.Size())
		}
	case interface{ Len() int }:
		return r.Len()
	}
	return 0
}

// line takes one line in.
func (b *keysBuilder) line(line []byte) *KeyError {
	s := keyScanner{text: line}
	s.space()
	if s.at == len(line) || line[s.at] == '#' {
		return nil
	}
	k, mistake := s.key()
	if mistake != nil {
		return mistake
	}
	switch b.add(&k) {
	case "hash":
		return s.fail("this key stands twice in the file", "remove one of the lines")
	case "plans":
		return s.fail(fmt.Sprintf("there are over %d plans", maxPlans), "a plan is what many keys have in common: write who it is under user")
	case "size":
		return s.fail(fmt.Sprintf("the file holds over %d keys, or 4 GiB of users", MaxKeys), "remove keys that nobody uses")
	}
	return nil
}

// keyScanner reads the object of one line. It is strict where encoding/json is
// not, knows the column of each mistake, and reads a million lines in a fraction of
// the time.
type keyScanner struct {
	text []byte
	at   int
}

func (s *keyScanner) fail(what, hint string) *KeyError {
	return &KeyError{Column: s.at + 1, What: what, Hint: hint}
}

// The form, for hints.
const keyForm = `write {"hash":"HEX","user":"NAME","plan":"NAME"}`

func (s *keyScanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// take takes one character, with space around it.
func (s *keyScanner) take(c byte) bool {
	s.space()
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	s.space()
	return true
}

func (s *keyScanner) key() (keyLine, *KeyError) {
	var k keyLine
	if !s.take('{') {
		return k, s.fail("a line must hold one JSON object", keyForm)
	}
	var hash, user, plan, limits bool
	start := 0
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return k, s.fail("a comma or } is missing", keyForm)
		}
		start = s.at
		name, value, mistake := s.member()
		if mistake != nil {
			return k, mistake
		}
		var seen *bool
		switch string(name) {
		case "hash":
			err := k.hash.parse(value)
			if err != nil {
				s.at = start
				what, hint, _ := strings.Cut(strings.TrimPrefix(err.Error(), "identity: "), ": ")
				return k, s.fail(what, hint)
			}
			seen = &hash
		case "user":
			k.user, seen = value, &user
		case "plan":
			k.plan, seen = value, &plan
		case "limits":
			seen = &limits
			if k.limits, mistake = s.limits(); mistake != nil {
				return k, mistake
			}
		default:
			s.at = start
			return k, s.fail(fmt.Sprintf("%.40q is not known", name), "use hash, user, plan and limits")
		}
		if *seen {
			s.at = start
			return k, s.fail(string(name)+" stands twice", "keep one of them")
		}
		*seen = true
		if (seen == &user || seen == &plan) && (len(value) == 0 || len(value) > maxLabel) {
			s.at = start
			return k, s.fail(fmt.Sprintf("%s must have 1 to %d bytes", name, maxLabel), "leave it out where there is none")
		}
	}
	if !hash {
		return k, s.fail("the key has no hash", keyForm)
	}
	if s.at != len(s.text) {
		return k, s.fail("the line goes on behind the object", "write one key a line")
	}
	return k, nil
}

// maxOwnLimits bounds how many limits of its own a key has.
const maxOwnLimits = 32

// limits reads {"name": 100, ...}.
func (s *keyScanner) limits() ([]OwnLimit, *KeyError) {
	const form = `write limits as {"NAME":100}, with the names of the rules`
	if !s.take('{') {
		return nil, s.fail("limits must be an object", form)
	}
	var list []OwnLimit
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return nil, s.fail("a comma or } is missing", form)
		}
		start := s.at
		name, mistake := s.string()
		if mistake != nil {
			return nil, mistake
		}
		if !s.take(':') {
			return nil, s.fail("a colon is missing", form)
		}
		n, ok := s.number()
		if !ok {
			return nil, s.fail("a whole number is missing", "write requests_per_unit, from 0 to 4294967295")
		}
		twice := slices.ContainsFunc(list, func(l OwnLimit) bool { return l.Name == string(name) })
		if len(name) == 0 || twice || len(list) == maxOwnLimits {
			s.at = start
			return nil, s.fail(fmt.Sprintf("the name of a limit is empty, stands twice, or is one of over %d", maxOwnLimits), form)
		}
		list = append(list, OwnLimit{string(name), n})
	}
	return list, nil
}

// number reads a whole number of JSON.
func (s *keyScanner) number() (uint32, bool) {
	end := s.at
	for end < len(s.text) && '0' <= s.text[end] && s.text[end] <= '9' {
		end++
	}
	digits := string(s.text[s.at:end])
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	s.at = end
	return uint32(n), true
}

// member reads "name": "value", and of limits only the name.
func (s *keyScanner) member() (name, value []byte, mistake *KeyError) {
	if name, mistake = s.string(); mistake != nil {
		return nil, nil, mistake
	}
	if !s.take(':') {
		return nil, nil, s.fail("a colon is missing", keyForm)
	}
	if string(name) == "limits" {
		return name, nil, nil // an object, read on its own
	}
	value, mistake = s.string()
	return name, value, mistake
}

func (s *keyScanner) string() ([]byte, *KeyError) {
	start := s.at
	if s.at == len(s.text) || s.text[s.at] != '"' {
		return nil, s.fail("a text in double quotes is missing", keyForm)
	}
	escaped := false
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		switch c := s.text[s.at]; {
		case c == '\\':
			escaped = true
			s.at++
		case c < ' ':
			return nil, s.fail("a text holds a control character", `write it as an escape such as \u0009`)
		}
	}
	if s.at >= len(s.text) {
		s.at = start
		return nil, s.fail("a text does not end", "close it with a double quote")
	}
	s.at++
	raw := s.text[start:s.at]
	text := raw[1 : len(raw)-1]
	if escaped {
		var plain string
		if json.Unmarshal(raw, &plain) != nil {
			s.at = start
			return nil, s.fail("a text holds an escape that JSON does not know", `write a backslash as \\`)
		}
		text = []byte(plain)
	}
	if !utf8.Valid(text) {
		s.at = start
		return nil, s.fail("a text is no UTF-8", "save the file as UTF-8")
	}
	return text, nil
}
