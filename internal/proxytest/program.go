package proxytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a program may take to start or to end, on a busy machine.
const patience = 20 * time.Second

// output keeps what a program says, for messages.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String gives what was said.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Program is a process that a test started.
type Program struct {
	Output output
	cmd    *exec.Cmd
	done   chan struct{}
}

// Start runs a program until the test ends.
func Start(t testing.TB, env []string, name string, args ...string) *Program {
	t.Helper()
	p := &Program{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.Output, &p.Output
	// Its own group, and gone with this process: nothing is left behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its output
		close(p.done)
	}()
	t.Cleanup(p.Kill)
	return p
}

// Kill ends the program and what it started, at once.
func (p *Program) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // gone already is fine
	<-p.done
}

// Signal sends a signal to the program alone.
func (p *Program) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// Freeze stops the program as SIGSTOP does, and waits until no thread of it runs.
func (p *Program) Freeze(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGSTOP)
	for start := time.Now(); time.Since(start) < patience; {
		if p.frozen(t) {
			return
		}
	}
	t.Fatal("the program does not stop")
}

func (p *Program) frozen(t testing.TB) bool {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("the threads of process %d cannot be seen: %v", p.cmd.Process.Pid, err)
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil { // a thread that has just ended
			return false
		}
		// The state follows the name, which stands in parentheses.
		if i := bytes.LastIndexByte(stat, ')'); i < 0 || !bytes.HasPrefix(stat[i:], []byte(") T")) {
			return false
		}
	}
	return true
}

// WaitListening waits until something accepts on an address, while the program
// lives.
func (p *Program) WaitListening(t testing.TB, network, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.Dial(network, address)
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-p.done:
			t.Fatalf("the program ended before it listened on %s:\n%s", address, &p.Output)
		case <-ctx.Done():
			t.Fatalf("nobody listens on %s (%v):\n%s", address, err, &p.Output)
		case <-tick.C:
		}
	}
}

// FreeAddress gives an address of this machine on which nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// Find gives the path of a program, also where a user's PATH does not lead.
func Find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	path := "/usr/sbin/" + name
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s is not installed: make deps installs it", name)
	}
	return path, nil
}
