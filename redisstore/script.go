package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strings"
	"sync"

	"github.com/caudal-dev/caudal"
)

//go:embed scripts/*.lua
var files embed.FS

// form is the number under which the scripts know an algorithm: that of
// caudal.Algorithm, and one more for token buckets too large for one number.
type form byte

const (
	formTokenBucketWide form = form(caudal.SlidingWindow) + 1
	formCount           int  = int(formTokenBucketWide) + 1
)

// maxNarrow bounds capacity x period of the token buckets whose arithmetic fits
// one Lua number. Twice that, for a cost beside a full bucket, is below 2^53.
const maxNarrow = 1 << 51

func formOf(l *caudal.Compiled) form {
	if l.Algorithm() == caudal.TokenBucket && l.Capacity() >= maxNarrow/uint64(l.PeriodTicks()) {
		return formTokenBucketWide
	}
	return form(l.Algorithm())
}

var (
	takeParts = [formCount]string{"", "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window", "token_bucket_wide"}
	// needs lists what of arith.lua a part needs.
	needsMuldiv = [formCount]bool{2: true, 5: true, 6: true}
)

const prelude = `local call, pack, unpack, floor, byte = redis.call, struct.pack, struct.unpack, math.floor, string.byte
`

// script is a script's text and the name under which a server keeps it.
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// scripts holds the scripts. They are put together from the files' parts, so that
// a call for one token bucket does not pay for the other algorithms: what a
// script defines it makes anew each time it runs.
type scripts struct {
	parts  map[string]string
	one    [formCount]*script
	refund [formCount]*script
	lease  [formCount]*script // nil where there are no leases
	reset  *script
	probe  *script
	clock  *script

	mu    sync.RWMutex
	batch [1 << formCount]*script // by the set of forms
}

var theScripts = sync.OnceValue(loadScripts)

func loadScripts() *scripts {
	s := &scripts{parts: parts()}
	for f := 1; f < formCount; f++ {
		s.one[f] = newScript(s.algorithms(1<<f) + strings.ReplaceAll(s.part("one"), "TAKE", takeParts[f]))
		undo := takeParts[f]
		if form(f) == formTokenBucketWide {
			undo = takeParts[caudal.TokenBucket]
		}
		s.refund[f] = newScript(s.algorithms(1<<f) + s.part(undo+"_refund") +
			strings.ReplaceAll(s.part("refund"), "TAKE", takeParts[f]))
		if hold := s.hold(form(f)); hold != "" {
			main := strings.Replace(s.part("lease"), "HOLD\n", hold, 1)
			s.lease[f] = newScript(s.algorithms(1<<f) + strings.ReplaceAll(main, "TAKE", takeParts[f]))
		}
	}
	s.reset = newScript(s.part("reset"))
	s.probe = newScript(s.part("probe"))
	s.clock = newScript(s.part("clock"))
	return s
}

// hold gives the functions that lease from counters of a form, and "" where none
// are.
func (s *scripts) hold(f form) string {
	switch f {
	case form(caudal.TokenBucket), formTokenBucketWide:
		return s.part("token_bucket_hold")
	case form(caudal.FixedWindow), form(caudal.SlidingWindow):
		return s.part(takeParts[f]+"_refund") + s.part(takeParts[f]+"_hold")
	}
	return ""
}

// parts cuts the files at the lines that name a part, and drops comments, which
// servers need not be sent.
func parts() map[string]string {
	out := map[string]string{}
	names, err := files.ReadDir("scripts")
	if err != nil {
		panic(err) // embedded: cannot be
	}
	for _, entry := range names {
		text, err := files.ReadFile("scripts/" + entry.Name())
		if err != nil {
			panic(err)
		}
		name := ""
		for line := range strings.Lines(string(text)) {
			if part, ok := strings.CutPrefix(line, "--@ "); ok {
				name = strings.TrimSpace(part)
			} else if trimmed := strings.TrimSpace(line); name != "" && trimmed != "" && !strings.HasPrefix(trimmed, "--") {
				out[name] += line
			}
		}
	}
	return out
}

func (s *scripts) part(name string) string {
	text, ok := s.parts[name]
	if !ok {
		panic("redisstore: no script part " + name) // a test loads them all
	}
	return text
}

// algorithms gives the functions of a set of forms, and what they need.
func (s *scripts) algorithms(set int) string {
	text, muldiv := "", false
	for f := 1; f < formCount; f++ {
		if set&(1<<f) != 0 {
			text += s.part(takeParts[f])
			muldiv = muldiv || needsMuldiv[f]
		}
	}
	if set&(1<<int(caudal.TokenBucket)|1<<int(formTokenBucketWide)) != 0 {
		text = s.part("token_bucket_leases") + text
	}
	// A refund of any token bucket counts as its own form does.
	if muldiv {
		text = s.part("muldiv") + text
	}
	return prelude + text
}

// oneFor gives the script for requests of one limit, whose form is the only one in
// the set.
func (s *scripts) oneFor(set int) *script { return s.one[bits.TrailingZeros(uint(set))] }

// batchFor gives the script for requests with limits of these forms.
func (s *scripts) batchFor(set int) *script {
	s.mu.RLock()
	sc := s.batch[set]
	s.mu.RUnlock()
	if sc != nil {
		return sc
	}
	takes := "local TAKES = {"
	for f := 1; f < formCount; f++ {
		if set&(1<<f) != 0 {
			takes += fmt.Sprintf("[%d] = %s, ", f, takeParts[f])
		}
	}
	sc = newScript(s.algorithms(set) + takes + "}\n" + s.part("batch"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch[set] = sc
	return sc
}
