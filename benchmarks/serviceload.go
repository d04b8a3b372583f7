package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/caudal-dev/caudal/internal/gwbench"
	"github.com/caudal-dev/caudal/internal/rlsbench"
)

// connections is how many the callers of a gRPC service share, as a proxy with two
// workers has.
const connections = 2

// protocol is what a gRPC service is asked: messages are made and read here, the
// same way for all, so that the load costs the same.
type protocol struct {
	method string
	ask    func() []byte
	denied func(answer []byte) (bool, error)
}

func askByGRPC(ctx context.Context, pid int, address string, p protocol) (*running, error) {
	var conns [connections]*grpc.ClientConn
	for i := range conns {
		c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = c.Close() })
		conns[i] = c
	}
	return &running{pid: pid, newAsk: func(caller int) rlsbench.Ask {
		conn := conns[caller%connections]
		return func(ctx context.Context) (bool, error) {
			request, answer := p.ask(), []byte(nil)
			if err := conn.Invoke(ctx, p.method, &request, &answer, grpc.ForceCodec(plain{}), grpc.WaitForReady(true)); err != nil {
				return false, err
			}
			return p.denied(answer)
		}
	}}, nil
}

// plain is a codec for messages that are bytes already.
type plain struct{}

func (plain) Name() string { return "proto" }

func (plain) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (plain) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func randomKey(keys int) string { return "key-" + strconv.Itoa(rand.IntN(keys)) }

// askRLS asks Envoy's rate limit service.
func askRLS(keys int) protocol {
	const overLimit = 2
	return protocol{
		method: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
		ask: func() []byte {
			entry := appendText(appendText(nil, 1, "api_key"), 2, randomKey(keys))
			return appendText(appendText(nil, 1, "bench"), 2, appendText(nil, 1, entry))
		},
		denied: func(answer []byte) (bool, error) {
			f, err := fields(answer)
			return f.numbers[1] == overLimit, err
		},
	}
}

// askGubernator asks gubernator about one limit.
func askGubernator(w work) protocol {
	const overLimit = 1
	millis := uint64(1000)
	if w.unit == "minute" {
		millis = 60_000
	}
	return protocol{
		method: "/pb.gubernator.V1/GetRateLimits",
		ask: func() []byte {
			limit := appendText(appendText(nil, 1, "bench"), 2, randomKey(w.keys))
			limit = appendNumber(appendNumber(appendNumber(limit, 3, 1), 4, uint64(w.calls)), 5, millis)
			return appendText(nil, 1, limit)
		},
		denied: func(answer []byte) (bool, error) {
			list, err := fields(answer)
			if err != nil {
				return false, err
			}
			f, err := fields(list.texts[1])
			if text := f.texts[5]; err == nil && len(text) > 0 {
				err = errors.New(string(text))
			}
			return f.numbers[1] == overLimit, err
		},
	}
}

func appendText[T string | []byte](b []byte, field protowire.Number, text T) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), string(text))
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// message holds the last value of each of the first fields of a message.
type message struct {
	numbers [8]uint64
	texts   [8][]byte
}

func fields(b []byte) (m message, err error) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return m, protowire.ParseError(n)
		}
		b = b[n:]
		switch value := b; {
		case kind == protowire.VarintType && int(field) < len(m.numbers):
			m.numbers[field], n = protowire.ConsumeVarint(value)
		case kind == protowire.BytesType && int(field) < len(m.texts):
			m.texts[field], n = protowire.ConsumeBytes(value)
		default:
			n = protowire.ConsumeFieldValue(field, kind, value)
		}
		if n < 0 {
			return m, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return m, nil
}

// askByHTTP gives each caller a connection.
func askByHTTP(pid int, address string, keys int) *running {
	return &running{pid: pid, newAsk: func(int) rlsbench.Ask {
		c := &httpCaller{address: address}
		return func(ctx context.Context) (bool, error) {
			status, err := c.get(ctx, randomKey(keys))
			if err == nil && status != http.StatusNoContent && status != http.StatusTooManyRequests {
				err = fmt.Errorf("status %d", status)
			}
			return status == http.StatusTooManyRequests, err
		}
	}}
}

// httpCaller is a connection that is made when it is needed.
type httpCaller struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
}

func (c *httpCaller) get(ctx context.Context, key string) (status int, err error) {
	if c.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
		if err != nil {
			return 0, err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
		context.AfterFunc(ctx, func() { _ = conn.Close() })
	}
	if status, err = gwbench.Exchange(c.conn, c.reader, key); err != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
	return status, err
}
