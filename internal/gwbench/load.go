package gwbench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// load sends requests for one slice of time; rate 0 is a closed loop.
func (o *Options) load(ctx context.Context, t *tally, rate int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	callers := make([]*caller, o.Callers)
	for i := range callers {
		c, err := dial(ctx, t.target.Address)
		if err != nil {
			for _, c := range callers[:i] {
				_ = c.conn.Close()
			}
			return fmt.Errorf("%s: %w", t.target.Name, err)
		}
		callers[i] = c
	}
	var all sync.WaitGroup
	start := time.Now()
	for i, c := range callers {
		pace := pace{start: start, end: start.Add(o.Slice), next: i, step: o.Callers, rate: rate}
		all.Go(func() { c.run(ctx, pace, o.Keys) })
	}
	all.Wait()
	for _, c := range callers {
		t.times.Merge(c.times)
		t.denied += c.denied
		t.errors += c.errors
	}
	return ctx.Err()
}

// pace says when a caller sends. Callers take the moments of one even flow in
// turns.
type pace struct {
	start, end       time.Time
	next, step, rate int
}

// due waits for the next moment and gives it; ok is false at the end. In a closed
// loop each caller sends at least once, however late it comes to it.
func (p *pace) due() (moment time.Time, ok bool) {
	if p.rate == 0 {
		now, first := time.Now(), p.next < p.step
		p.next += p.step
		return now, first || now.Before(p.end)
	}
	moment = p.start.Add(time.Duration(float64(p.next) / float64(p.rate) * float64(time.Second)))
	p.next += p.step
	if !moment.Before(p.end) {
		return moment, false
	}
	time.Sleep(time.Until(moment))
	return moment, true
}

// caller is one connection that sends one request after the other.
type caller struct {
	conn           net.Conn
	reader         *bufio.Reader
	address        string
	times          *hdrhistogram.Histogram
	denied, errors int64
}

// timeout bounds one exchange.
const timeout = 10 * time.Second

func dial(ctx context.Context, address string) (*caller, error) {
	c := &caller{address: address, times: hdrhistogram.New(1000, int64(time.Minute), 3)}
	return c, c.connect(ctx)
}

func (c *caller) connect(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	c.conn, c.reader = conn, bufio.NewReader(conn)
	return nil
}

func (c *caller) run(ctx context.Context, p pace, keys int) {
	defer func() { _ = c.conn.Close() }()
	for ctx.Err() == nil {
		moment, ok := p.due()
		if !ok {
			return
		}
		status, err := c.exchange(rand.IntN(keys))
		if err != nil {
			c.errors++
			_ = c.conn.Close()
			if c.connect(ctx) != nil {
				return
			}
			continue
		}
		if status != http.StatusOK {
			c.denied++
		}
		_ = c.times.RecordValue(min(max(int64(time.Since(moment)), 1000), int64(time.Minute)))
	}
}

func (c *caller) exchange(key int) (status int, err error) {
	return Exchange(c.conn, c.reader, fmt.Sprintf("key-%d", key))
}

// Exchange sends one GET with an API key on a connection and reads the answer, in
// at most ten seconds. After an error the connection is of no more use.
func Exchange(conn net.Conn, reader *bufio.Reader, key string) (status int, err error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(conn, "GET /items HTTP/1.1\r\nHost: bench\r\nX-Api-Key: %s\r\n\r\n", key); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
