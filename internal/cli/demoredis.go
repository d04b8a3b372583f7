package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caudal-dev/caudal/internal/serve"
)

// redisStartTimeout is how long the demo's Redis may take to listen.
const redisStartTimeout = 10 * time.Second

// startRedis runs a redis-server of the demo's own on a free port of this machine,
// which keeps nothing. It ends with stop.
func startRedis(ctx context.Context) (url string, stop func(), err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, &serve.Error{What: "redis-server is not installed", Hint: "apt-get install redis-server, or leave out --redis"}
	}
	address, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "caudal-demo-")
	if err != nil {
		return "", nil, err
	}
	host, port, _ := strings.Cut(address, ":")
	cmd := exec.Command(program, "--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "no", "--loglevel", "warning")
	if err := cmd.Start(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("cannot start redis-server: %w", err), os.RemoveAll(dir))
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()        // it was told to end
		_ = os.RemoveAll(dir) // nothing in it matters
	}
	ctx, cancel := context.WithTimeout(ctx, redisStartTimeout)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return "redis://" + address, stop, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			stop()
			return "", nil, fmt.Errorf("redis-server did not listen on %s: %w", address, err)
		}
	}
}

func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// nextPort gives the address one port further, or a free port for a free port.
func nextPort(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 65535 {
		return "", fmt.Errorf("there is no port after %s", address)
	}
	if n > 0 {
		n++
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

// redisTries are printed by the demo with --redis. Both gateways count together.
func redisTries(one, two string) string {
	both := fmt.Sprintf("{%s,%s}", port(one), port(two))
	host := strings.TrimSuffix(one, port(one))
	return fmt.Sprintf(`
One count for both gateways. Try, in another terminal:

  # six logins, through one gateway and the other: five pass in all
  for i in 1 2 3; do curl -s -o /dev/null -w '%%{http_code}\n' -X POST 'http://%s%s/login'; done

  # what both say that remains of one API key
  curl -s -o /dev/null -D - -H 'X-API-Key: alice' 'http://%s%s/items' | grep -i x-ratelimit-remaining
`, host, both, host, both)
}

func port(address string) string {
	if p, err := netip.ParseAddrPort(address); err == nil {
		return strconv.Itoa(int(p.Port()))
	}
	_, port, _ := net.SplitHostPort(address)
	return port
}
