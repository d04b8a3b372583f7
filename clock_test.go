package caudal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
)

func TestInstant(t *testing.T) {
	at := caudal.At(time.Date(2026, 3, 10, 12, 0, 0, 1999, time.UTC))
	if at.Wall != 1773144000000001 || at.Mono != at.Wall {
		t.Errorf("At(... 1999 ns) = %+v, want 1773144000000001 on both scales", at)
	}
	if later := at.Add(1999 * time.Nanosecond); later.Wall != at.Wall+1 || later.Mono != at.Mono+1 {
		t.Errorf("Add(1999ns) = %+v, want a microsecond later", later)
	}
	if !(caudal.Instant{}).IsZero() || at.IsZero() {
		t.Error("only the zero Instant is zero")
	}
}

func TestSystemClockRunsWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := caudal.NewSystemClock()
		start := c.Now()
		if start != caudal.At(time.Now()) {
			t.Errorf("Now() = %+v, want %+v", start, caudal.At(time.Now()))
		}
		for _, d := range []time.Duration{time.Microsecond, time.Millisecond, time.Second, 400 * 24 * time.Hour} {
			time.Sleep(d)
			if got, want := c.Now(), caudal.At(time.Now()); got != want {
				t.Errorf("after %s Now() = %+v, want %+v", d, got, want)
			}
		}
	})
}

// TestSystemClockNeverGoesBack from many goroutines.
func TestSystemClockNeverGoesBack(t *testing.T) {
	c := caudal.NewSystemClock()
	done := make(chan int64, 4)
	for range cap(done) {
		go func() {
			last, steps := c.Now().Mono, int64(0)
			for range 20_000 {
				now := c.Now().Mono
				steps = min(steps, now-last)
				last = now
			}
			done <- steps
		}()
	}
	for range cap(done) {
		if back := <-done; back < 0 {
			t.Errorf("the clock went back by %d us", -back)
		}
	}
}

// TestMicrosPicksTheReading: windows follow the wall clock, all else elapsed time.
func TestMicrosPicksTheReading(t *testing.T) {
	at := caudal.Instant{Mono: 5, Wall: 7}
	for text, want := range map[string]int64{
		"1/s": 5, "1/s leaky_bucket": 5, "1/s sliding_log": 5, "1/s fixed_window": 7, "1/s sliding_window": 7,
	} {
		c, err := parse(t, text).Compile("", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Micros(at); got != want {
			t.Errorf("%s: Micros(%+v) = %d, want %d", text, at, got, want)
		}
		if got := c.Micros(caudal.Instant{Mono: -1, Wall: -1}); got != 0 {
			t.Errorf("%s: Micros before 1970 = %d, want 0", text, got)
		}
		if got := c.Micros(caudal.Instant{Mono: 1 << 60, Wall: 1 << 60}); got != caudal.MaxInstant {
			t.Errorf("%s: Micros of the year 38504 = %d, want MaxInstant", text, got)
		}
	}
}
