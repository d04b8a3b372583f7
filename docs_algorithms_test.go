package caudal_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
)

// key is one counter of any algorithm.
type key struct {
	tb algorithm.TokenBucket
	lb algorithm.LeakyBucket
	fw algorithm.FixedWindow
	sl algorithm.SlidingLog
	sw algorithm.SlidingWindow
}

func (k *key) take(c *caudal.Compiled, now int64, cost uint32) (d caudal.Decision) {
	switch c.Algorithm() {
	case caudal.TokenBucket:
		k.tb, d = k.tb.Take(c, now, cost)
	case caudal.LeakyBucket:
		k.lb, d = k.lb.Take(c, now, cost)
	case caudal.FixedWindow:
		k.fw, d = k.fw.Take(c, now, cost)
	case caudal.SlidingLog:
		d = k.sl.Take(c, now, cost)
	case caudal.SlidingWindow:
		k.sw, d = k.sw.Take(c, now, cost)
	}
	return d
}

// refund gives a whole charge back, of a call that never left.
func (k *key) refund(r caudal.Receipt, now int64) {
	switch c := r.Limit; c.Algorithm() {
	case caudal.TokenBucket:
		k.tb = k.tb.Refund(c, r.Cost)
	case caudal.LeakyBucket:
		k.lb = k.lb.Refund(r, now, r.Cost)
	case caudal.FixedWindow:
		k.fw = k.fw.Refund(r.At, r.Cost)
	case caudal.SlidingLog:
		k.sl.Refund(r.At, r.Cost)
	case caudal.SlidingWindow:
		k.sw = k.sw.Refund(c, r.At, r.Cost)
	}
}

var timelineBlock = regexp.MustCompile("(?ms)^```timeline\n(.*?)^```")

// TestAlgorithmsPage runs the timelines of the pages on algorithms, so that they
// say only what is so.
func TestAlgorithmsPage(t *testing.T) {
	for _, page := range []string{"docs/algorithms.md", "docs/es/algoritmos.md"} {
		text := string(read(t, page))
		blocks := timelineBlock.FindAllStringSubmatchIndex(text, -1)
		if len(blocks) < 8 {
			t.Fatalf("%s has %d timelines, want at least 8: the search is broken", page, len(blocks))
		}
		for _, b := range blocks {
			first := 1 + strings.Count(text[:b[2]], "\n")
			run := &timeline{}
			for i, line := range strings.Split(strings.TrimSuffix(text[b[2]:b[3]], "\n"), "\n") {
				if err := run.step(inEnglish(line)); err != nil {
					t.Errorf("%s:%d: %q: %v", page, first+i, line, err)
				}
			}
		}
	}
}

// timeline is one key under one limit while its script runs.
type timeline struct {
	key   key
	limit *caudal.Compiled
	last  caudal.Decision // of the last call that was allowed
}

var (
	callsLine  = regexp.MustCompile(`^(\S+) +(peek|(\d+) calls?(?: of cost (\d+))?) +-> (.*)$`)
	otherLine  = regexp.MustCompile(`^(\S+) +(limit|last call taken back)\b *(.*)$`)
	limitLine  = regexp.MustCompile(`^limit +(.*)$`)
	promise    = regexp.MustCompile(`^worst +(.*)$`)
	outcome    = regexp.MustCompile(`^(\d+) (allowed|denied)$`)
	fieldValue = regexp.MustCompile(`^(remaining|retry after|full after|last leaves after) (\S+)$`)
)

func (tl *timeline) step(line string) error {
	if m := limitLine.FindStringSubmatch(line); m != nil {
		return tl.setLimit(m[1])
	}
	if m := promise.FindStringSubmatch(line); m != nil {
		if got := tl.limit.Limit().WorstCase().String(); got != m[1] {
			return fmt.Errorf("worst case is %q", got)
		}
		return nil
	}
	if m := callsLine.FindStringSubmatch(line); m != nil {
		return tl.calls(m[1], m[2], m[3], m[4], m[5])
	}
	m := otherLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("not a line of a timeline")
	}
	if m[2] == "limit" {
		return tl.setLimit(m[3])
	}
	now, err := instant(m[1])
	if err != nil {
		return err
	}
	tl.key.refund(tl.last.Receipt, now)
	return nil
}

func (tl *timeline) setLimit(text string) error {
	l, err := caudal.ParseLimit(text)
	if err != nil {
		return err
	}
	tl.limit, err = l.Compile("", "")
	return err
}

// calls makes n calls at one instant and compares what came of them.
func (tl *timeline) calls(at, what, count, cost, want string) error {
	now, err := instant(at)
	if err != nil {
		return err
	}
	n, c := number(count, 1), number(cost, 1)
	if what == "peek" {
		c = 0
	}
	var allowed, refused int
	var d caudal.Decision
	for range n {
		d = tl.key.take(tl.limit, now, uint32(c))
		if d.Allowed {
			allowed++
			tl.last = d
		} else {
			refused++
		}
	}
	for _, part := range strings.Split(want, ", ") {
		if err := tl.compare(part, allowed, refused, d); err != nil {
			return err
		}
	}
	if !strings.Contains(want, "denied") && refused > 0 && !strings.Contains(want, "never") {
		return fmt.Errorf("%d denied", refused)
	}
	return nil
}

// compare checks one part of an outcome against the last decision.
func (tl *timeline) compare(part string, allowed, refused int, d caudal.Decision) error {
	if m := outcome.FindStringSubmatch(part); m != nil {
		got := allowed
		if m[2] == "denied" {
			got = refused
		}
		if strconv.Itoa(got) != m[1] {
			return fmt.Errorf("%d %s", got, m[2])
		}
		return nil
	}
	if part == "never" {
		if !d.Never {
			return fmt.Errorf("can succeed after %s", d.RetryAfter)
		}
		return nil
	}
	m := fieldValue.FindStringSubmatch(part)
	if m == nil {
		return fmt.Errorf("%q is not an outcome", part)
	}
	got := map[string]string{
		"remaining":         strconv.FormatUint(d.Remaining, 10),
		"retry after":       d.RetryAfter.String(),
		"full after":        d.ResetAfter.String(),
		"last leaves after": tl.last.Delay.String(),
	}[m[1]]
	if got != m[2] {
		return fmt.Errorf("%s %s", m[1], got)
	}
	return nil
}

// instant reads "3s" after, or "10:05:59" on, Monday 2026-01-05, in UTC.
func instant(s string) (int64, error) {
	monday := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	if clock, err := time.Parse("15:04:05", s); err == nil {
		midnight := clock.Truncate(24 * time.Hour)
		return monday.Add(clock.Sub(midnight)).UnixMicro(), nil
	}
	d, err := time.ParseDuration(s)
	return monday.Add(d).UnixMicro(), err
}

func number(s string, fallback int) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return fallback
}

// TestAlgorithmsPageComparison works out the table in which a client asks without
// pause from 10:00:50 on: how many calls leave in each ten seconds.
func TestAlgorithmsPageComparison(t *testing.T) {
	const start, columns = 10*3600 + 50, 9
	pages := []string{"docs/algorithms.md", "docs/es/elegir.md"}
	for _, limit := range []string{
		"60/m burst 20", "60/m fixed_window", "60/m sliding_log", "60/m sliding_window", "60/m leaky_bucket queue 10",
	} {
		base, err := instant("0s")
		if err != nil {
			t.Fatal(err)
		}
		from := base + start*1_000_000
		row := fmt.Sprintf("%-27s", limit)
		var left [columns]int
		for _, at := range drive(t, parse(t, limit), from, from+columns*10_000_000) {
			if column := (at - from) / 10_000_000; column < columns {
				left[column]++
			}
		}
		for _, n := range left {
			row += fmt.Sprintf("%6d", n)
		}
		for _, page := range pages {
			if !strings.Contains(string(read(t, page)), row+"\n") {
				t.Errorf("%s lacks the row\n%s", page, row)
			}
		}
	}
}
