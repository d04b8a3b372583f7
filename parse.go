package caudal

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseLimit reads a limit as people write it:
//
//	100/m
//	1000/hour burst 100
//	5/m sliding_log
//	10/13s
//	50/s leaky_bucket queue 60 max_wait 2s
//	10000/day fixed_window timezone Europe/Madrid
//
// Before the slash stands how many, after it the period: an optional whole
// number and a unit (s, m, h, d, w, or a name such as minute or month). Then
// come, in any order and each once, an algorithm and its words. When none is
// named it is a token_bucket, and with a queue a leaky_bucket. The error says what
// is wrong and gives an example.
func ParseLimit(s string) (Limit, error) {
	l, err := parseLimit(s)
	if err != nil {
		return Limit{}, fmt.Errorf("%w: %q: %w", ErrInvalidLimit, s, err)
	}
	if err := l.check(); err != nil {
		return Limit{}, fmt.Errorf("%w: %q: %w", ErrInvalidLimit, s, err)
	}
	return l, nil
}

func parseLimit(s string) (Limit, error) {
	l := Limit{Algorithm: TokenBucket}
	count, rest, found := strings.Cut(s, "/")
	if !found {
		return l, fmt.Errorf("no period: write how many, a slash and a unit, such as 100/m")
	}
	n, err := parseCount(strings.TrimSpace(count))
	if err != nil {
		return l, fmt.Errorf("requests %w", err)
	}
	l.Requests = n
	words := strings.Fields(rest)
	if len(words) == 0 {
		return l, fmt.Errorf("no unit after the slash: use s, m, h, d, w, month or year")
	}
	words, err = parsePeriod(&l, words)
	if err != nil {
		return l, err
	}
	return l, parseWords(&l, words)
}

// parsePeriod reads "m", "13s", "13 s" or "2 weeks" and gives the words left.
func parsePeriod(l *Limit, words []string) ([]string, error) {
	word := words[0]
	digits := len(word) - len(strings.TrimLeft(word, "0123456789"))
	if digits > 0 {
		n, err := parseCount(word[:digits])
		if err != nil || n == 0 {
			return nil, fmt.Errorf("period %q must be a whole number from 1 and a unit, such as 13s", word)
		}
		l.Multiplier = n
		if n == 1 {
			l.Multiplier = 0 // one unit is one unit: keep equal limits equal
		}
		word = word[digits:]
		if word == "" && len(words) > 1 {
			words = words[1:]
			word = words[0]
		}
	}
	unit, ok := parseShortUnit(word)
	if !ok {
		return nil, fmt.Errorf("unit %q is not known: use s, m, h, d, w, month or year", word)
	}
	l.Unit = unit
	return words[1:], nil
}

func parseShortUnit(s string) (Unit, bool) {
	switch strings.ToLower(s) {
	case "s", "sec":
		return Second, true
	case "m", "min":
		return Minute, true
	case "h":
		return Hour, true
	case "d":
		return Day, true
	case "w":
		return Week, true
	}
	return ParseUnit(strings.TrimSuffix(strings.ToLower(s), "s"))
}

func parseWords(l *Limit, words []string) error {
	seen := make(map[string]bool)
	for len(words) > 0 {
		word, kind := words[0], words[0]
		a, isAlgorithm := ParseAlgorithm(word)
		if isAlgorithm {
			kind = "algorithm"
		}
		if seen[kind] {
			return fmt.Errorf("%q: the %s is given twice", word, kind)
		}
		seen[kind] = true
		if isAlgorithm || word == "epoch" {
			l.Epoch = l.Epoch || word == "epoch"
			if isAlgorithm {
				l.Algorithm = a
			}
			words = words[1:]
			continue
		}
		if len(words) == 1 {
			return fmt.Errorf("%q is not known here, or lacks its value: after the period come an algorithm, burst N, queue N, max_wait D, timezone Z", word)
		}
		if err := parseWord(l, word, words[1]); err != nil {
			return err
		}
		words = words[2:]
	}
	if seen["queue"] && !seen["algorithm"] {
		l.Algorithm = LeakyBucket // nothing else has a queue
	}
	if seen["queue"] && l.Algorithm != LeakyBucket {
		return fmt.Errorf("queue does not go with %s: only a leaky_bucket has a queue", l.Algorithm)
	}
	return nil
}

func parseWord(l *Limit, word, value string) (err error) {
	switch word {
	case "burst":
		l.Burst, err = parseCount(value)
		if err == nil && l.Burst == 0 {
			err = fmt.Errorf("must be at least 1; leave it out for a burst of the requests")
		}
	case "queue":
		l.Queue, err = parseCount(value)
	case "max_wait":
		l.MaxWait, err = time.ParseDuration(value)
		if err == nil && l.MaxWait == 0 {
			err = fmt.Errorf("must be over 0; use queue 0 to let nobody wait")
		}
	case "timezone":
		l.Timezone = value
	default:
		return fmt.Errorf("%q is not known here: after the period come an algorithm, burst N, queue N, max_wait D, timezone Z", word)
	}
	if err != nil {
		return fmt.Errorf("%s %w", word, err)
	}
	return nil
}

func parseCount(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q must be a whole number from 0 to 4294967295", s)
	}
	return uint32(n), nil
}
