package caudal

import (
	"sync"
	"time"
)

// zones keeps loaded time zones, so that compiling a rule set of thousands of
// limits reads each zone's file once. Only zones that exist are kept, and there
// are a few hundred.
var zones sync.Map // string -> *time.Location

func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	if name == "Local" {
		// time.LoadLocation accepts it, but it means something else on each machine.
		return nil, errLocalZone
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	zones.Store(name, loc)
	return loc, nil
}

var errLocalZone = &time.ParseError{Message: "the zone Local differs between machines"}

// window is one window of a fixed-window limit: [start, end) in microseconds of
// wall time.
type window struct{ start, end int64 }

// Window gives the fixed or sliding window that holds the instant wall, as a
// half-open interval of wall microseconds. Calendar windows are worked out once
// and remembered until they end.
func (c *Compiled) Window(wall int64) (start, end int64) {
	if !c.calendar {
		start = wall - floorMod(wall-c.offset, c.periodMicros)
		return start, start + c.periodMicros
	}
	if w := c.cached.Load(); w != nil && w.start <= wall && wall < w.end {
		return w.start, w.end
	}
	w := calendarWindow(wall, c.limit.Unit, c.zone)
	c.cached.Store(&w)
	return w.start, w.end
}

// calendarWindow finds the calendar day, week, month or year around an instant.
// It steps to a neighbour where the zone's history makes the local date go back,
// so that the window always holds the instant.
func calendarWindow(wall int64, unit Unit, loc *time.Location) window {
	y, m, d := time.UnixMicro(wall).In(loc).Date()
	first := firstDay(unit, y, m, d)
	w := window{dayStart(first, loc), dayStart(nextFirst(unit, first, 1), loc)}
	for wall < w.start {
		first = nextFirst(unit, first, -1)
		w = window{dayStart(first, loc), w.start}
	}
	for wall >= w.end {
		first = nextFirst(unit, first, 1)
		w = window{w.end, dayStart(nextFirst(unit, first, 1), loc)}
	}
	return w
}

// firstDay gives the first day of the unit that holds a date, as midnight UTC:
// here UTC only stands for "a date".
func firstDay(unit Unit, y int, m time.Month, d int) time.Time {
	switch unit {
	case Year:
		m, d = time.January, 1
	case Month:
		d = 1
	case Week:
		weekday := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()
		d -= (int(weekday) + 6) % 7 // back to Monday
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

func nextFirst(unit Unit, first time.Time, n int) time.Time {
	switch unit {
	case Year:
		return first.AddDate(n, 0, 0)
	case Month:
		return first.AddDate(0, n, 0)
	case Week:
		return first.AddDate(0, 0, 7*n)
	}
	return first.AddDate(0, 0, n)
}

// dayStart gives the first instant of a local date. time.Date does not promise
// which instant it gives when midnight is skipped or comes twice, so both
// offsets around the date are tried: the earliest that reads as midnight is the
// start; when none does, the date starts where the clock jumped over midnight.
func dayStart(date time.Time, loc *time.Location) int64 {
	before := date.Add(-26 * time.Hour).In(loc)
	after := date.Add(26 * time.Hour).In(loc)
	var start time.Time
	for _, t := range [2]time.Time{before, after} {
		_, offset := t.Zone()
		u := date.Add(-time.Duration(offset) * time.Second)
		if l := u.In(loc); l.Hour() != 0 || l.Minute() != 0 || l.Second() != 0 || l.Day() != date.Day() {
			continue
		}
		if start.IsZero() || u.Before(start) {
			start = u
		}
	}
	if start.IsZero() {
		_, start = before.ZoneBounds()
	}
	return start.UnixMicro()
}

// floorMod is a mod b with the sign of b, for instants before 1970.
func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}
