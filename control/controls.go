package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
)

// Bounds and defaults.
const (
	// MaxBlocks is how many blocks there can be at a time. Whoever needs more wants
	// a rule.
	MaxBlocks = 1000
	// MaxFor is how long a block may last.
	MaxFor = 366 * 24 * time.Hour
	// DefaultEvery is how often an instance asks what others said.
	DefaultEvery = time.Second
	// callTimeout bounds one such question.
	callTimeout = 2 * time.Second
)

// ErrShared is wrapped by the error of whatever could not be read from, or said to,
// the store that all instances share.
var ErrShared = errors.New("control: the store that all instances share does not answer")

// Shared keeps short notes for all instances. A redisstore.Store is one.
type Shared interface {
	// Notes gives all notes by name, and a mark that changes when they do. When
	// the mark is still the known one, notes are nil; else they are not, however few.
	Notes(ctx context.Context, known string) (notes map[string]string, mark string, err error)
	// Note writes some notes and takes others away.
	Note(ctx context.Context, write map[string]string, remove []string) error
}

// Options are the settings of Controls. The zero value is usable: what is said
// holds for this process and ends with it.
type Options struct {
	// Shared keeps what is said for all instances. Nil keeps it in this process.
	Shared Shared
	// Every is how often Run asks Shared; 0 means DefaultEvery.
	Every time.Duration
	// Clock tells when a block is over, by its wall time; the clocks of all
	// instances should agree to a second. Default caudal.NewSystemClock.
	Clock caudal.Clock
	// Logger gets a line when enforcement changes, blocks come or go, or Shared
	// cannot be asked. Default slog.Default().
	Logger *slog.Logger
}

// Controls is what holds now. It is safe for concurrent use, and a nil *Controls
// blocks nobody. Make it with New.
type Controls struct {
	o       Options
	held    atomic.Pointer[held]
	blocked atomic.Uint64 // requests

	mu    sync.Mutex // one change or question at a time
	notes map[string]string
	mark  string
	deaf  bool // Shared could not be asked the last time
}

// New makes Controls that block nobody.
func New(o Options) *Controls {
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Clock == nil {
		o.Clock = caudal.NewSystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	c := &Controls{o: o, notes: map[string]string{}}
	c.held.Store(&held{})
	return c
}

// Run hears what other instances say, until ctx ends. Without Shared it only takes
// away what is over.
func (c *Controls) Run(ctx context.Context) {
	ticker := time.NewTicker(c.o.Every)
	defer ticker.Stop()
	for {
		_ = c.Refresh(ctx) // it has logged, and what was heard last stays
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Refresh asks Shared once, now. On an error what was heard last stays.
func (c *Controls) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refreshLocked(ctx)
}

func (c *Controls) refreshLocked(ctx context.Context) error {
	if c.o.Shared == nil {
		c.holdLocked()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	notes, mark, err := c.o.Shared.Notes(ctx, c.mark)
	if err != nil {
		if !c.deaf && !errors.Is(err, context.Canceled) {
			c.deaf = true
			c.o.Logger.Warn("blocks and enforcement cannot be read from the store: what was read last stays until its time is over", "error", err)
		}
		c.holdLocked()
		return fmt.Errorf("%w: %w", ErrShared, err)
	}
	c.deaf = false
	if notes != nil {
		c.notes, c.mark = notes, mark
	}
	c.holdLocked()
	return nil
}

// holdLocked puts in force what the notes say, without what is over.
func (c *Controls) holdLocked() {
	before := c.held.Load()
	now := c.wall()
	next := holdOf(c.notes, now)
	if next.same(before) {
		return
	}
	c.held.Store(next)
	if next.off != before.off {
		if next.off {
			c.o.Logger.Warn("enforcement is off: limits count and deny nobody", "until", untilText(next.offUntil))
		} else {
			c.o.Logger.Warn("enforcement is on")
		}
	}
	if len(next.list) != len(before.list) {
		c.o.Logger.Info("blocks changed", "blocks", len(next.list))
	}
}

func untilText(us int64) string {
	if us == 0 {
		return "somebody turns it on"
	}
	return time.UnixMicro(us).UTC().Format(time.RFC3339)
}

func (c *Controls) wall() int64 { return c.o.Clock.Now().Wall }

// Block denies the target's requests on all instances for a time: here at once, on
// others when they ask next. A block that is there already gets the new time.
func (c *Controls) Block(ctx context.Context, t Target, d time.Duration) error {
	switch {
	case t.attribute == "":
		return errors.New("control: no target: make one with ParseTarget")
	case d < time.Second || d > MaxFor:
		return fmt.Errorf("control: a block of %s: give a time from 1s to %s", d, MaxFor)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refreshLocked(ctx); err != nil {
		return err
	}
	name, now := blockNote+t.String(), c.wall()
	if _, there := c.notes[name]; !there && len(holdOf(c.notes, now).list) >= MaxBlocks {
		return fmt.Errorf("control: there are %d blocks already: take some away, or write a rule", MaxBlocks)
	}
	return c.sayLocked(ctx, map[string]string{name: noteUntil(now + d.Microseconds())}, overNotes(c.notes, now))
}

// Unblock takes a block away, and reports whether it was there.
func (c *Controls) Unblock(ctx context.Context, t Target) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refreshLocked(ctx); err != nil {
		return false, err
	}
	name := blockNote + t.String()
	if _, there := c.notes[name]; !there {
		return false, nil
	}
	return true, c.sayLocked(ctx, nil, append(overNotes(c.notes, c.wall()), name))
}

// Enforce says whether limits and blocks deny on all instances. Off with a time
// above 0 turns them on again after it.
func (c *Controls) Enforce(ctx context.Context, on bool, offFor time.Duration) error {
	if offFor < 0 || offFor > MaxFor {
		return fmt.Errorf("control: off for %s: give a time of at most %s", offFor, MaxFor)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refreshLocked(ctx); err != nil {
		return err
	}
	if on {
		return c.sayLocked(ctx, nil, []string{offNote})
	}
	until := int64(0)
	if offFor > 0 {
		until = c.wall() + offFor.Microseconds()
	}
	return c.sayLocked(ctx, map[string]string{offNote: noteUntil(until)}, nil)
}

// sayLocked writes notes, to all instances first.
func (c *Controls) sayLocked(ctx context.Context, write map[string]string, remove []string) error {
	if c.o.Shared != nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if err := c.o.Shared.Note(ctx, write, remove); err != nil {
			return fmt.Errorf("%w: %w", ErrShared, err)
		}
	}
	next := map[string]string{}
	for name, value := range c.notes {
		next[name] = value
	}
	for _, name := range remove {
		delete(next, name)
	}
	for name, value := range write {
		next[name] = value
	}
	c.notes, c.mark = next, "" // the next question reads them all
	c.holdLocked()
	return nil
}
