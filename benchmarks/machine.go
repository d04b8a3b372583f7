package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// gubernatorVersion is the one that is measured: the last that builds with the Go
// that caudal is built with.
const gubernatorVersion = "v2.13.0"

// absentError says why a service cannot be measured here.
type absentError struct{ why string }

func (e *absentError) Error() string { return e.why }

// machine is what services run on: a folder for their files, programs that were
// built for them, and an upstream for those that are proxies.
type machine struct {
	dir, cache string
	caudal     string // the program
	gubernator func() (string, error)
	upstream   net.Listener
	processes  sync.WaitGroup
}

func newMachine() (m *machine, err error) {
	m = &machine{}
	if m.dir, err = os.MkdirTemp("", "caudal-benchmarks-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(m.dir)
		}
	}()
	user, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	m.cache = filepath.Join(user, "caudal-benchmarks")
	if m.caudal, err = m.buildCaudal(); err != nil {
		return nil, err
	}
	m.gubernator = sync.OnceValues(m.buildGubernator)
	m.upstream, err = startUpstream()
	return m, err
}

func (m *machine) close() {
	_ = m.upstream.Close()
	_ = os.RemoveAll(m.dir)
}

// wait is for the processes to end.
func (m *machine) wait() { m.processes.Wait() }

func (m *machine) buildCaudal() (string, error) {
	progress("building caudal")
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/caudal-dev/caudal").Output()
	if err != nil {
		return "", fmt.Errorf("where is caudal? run this in the folder benchmarks: %w", err)
	}
	program := filepath.Join(m.dir, "caudal")
	build := exec.Command("go", "build", "-o", program, "./cmd/caudal")
	build.Dir = strings.TrimSpace(string(out))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build caudal: %w: %s", err, out)
	}
	return program, nil
}

// buildGubernator builds gubernator's daemon in the user's cache, or finds it there.
func (m *machine) buildGubernator() (string, error) {
	dir := filepath.Join(m.cache, "gubernator-"+gubernatorVersion)
	program := filepath.Join(dir, "gubernator")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	progress("building gubernator %s, which takes some minutes the first time", gubernatorVersion)
	build := exec.Command("go", "install", "github.com/gubernator-io/gubernator/v2/cmd/gubernator@"+gubernatorVersion)
	build.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", &absentError{fmt.Sprintf("gubernator %s cannot be built: %s", gubernatorVersion, lines[len(lines)-1])}
	}
	return program, nil
}

// startUpstream answers 204 to everything.
func startUpstream() (net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})}
	go func() { _ = server.Serve(ln) }() // until the listener closes
	return ln, nil
}

// freeAddress gives one that nobody listens on.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// run starts a program that will listen on the address, until ctx ends, and waits
// until it does.
func (m *machine) run(ctx context.Context, address string, env []string, program string, args ...string) (pid int, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	var said lastBytes
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	m.processes.Go(func() {
		_ = cmd.Wait() // killed, or the wait below says what it said
		close(ended)
	})
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if c, err := net.Dial("tcp", address); err == nil {
			return cmd.Process.Pid, c.Close()
		}
		select {
		case <-ended:
			return 0, fmt.Errorf("%s ended at once: %s", filepath.Base(program), said.String())
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return 0, fmt.Errorf("%s does not listen on %s: %s", filepath.Base(program), address, said.String())
}

// write puts a file into the machine's folder.
func (m *machine) write(name, text string) (path string, err error) {
	path = filepath.Join(m.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// folder makes one in the machine's.
func (m *machine) folder(name string) error { return os.Mkdir(filepath.Join(m.dir, name), 0o700) }

// lastBytes keeps the end of what a program says.
type lastBytes struct {
	mu   sync.Mutex
	text []byte
}

func (b *lastBytes) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	b.text = b.text[max(0, len(b.text)-2000):]
	return len(p), nil
}

func (b *lastBytes) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// find gives the path of a program that must be installed.
func find(program, install string) (string, error) {
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrNotFound) {
		return "", &absentError{fmt.Sprintf("%s is not installed: %s", program, install)}
	}
	return path, err
}
