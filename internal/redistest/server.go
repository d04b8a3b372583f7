package redistest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout is how long a server may take to answer.
const startTimeout = 20 * time.Second

// Server is one redis-server process.
type Server struct {
	// Addr is where it listens, as host:port.
	Addr string
	// Password is what the default user needs; empty for none.
	Password string
	// TLS holds the certificates when the server speaks TLS.
	TLS *Certificates

	t    testing.TB
	args []string
	dir  string
	port int

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
	log  *bytes.Buffer
}

// Start starts one server. Each argument is a line of its configuration, such as
// "maxmemory 10mb".
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	s := prepare(t, config)
	s.Restart()
	return s
}

// StartPassword starts a server whose default user needs a password.
func StartPassword(t testing.TB, password string, config ...string) *Server {
	t.Helper()
	s := prepare(t, append(config, "requirepass "+password))
	s.Password = password
	s.Restart()
	return s
}

// StartTLS starts a server that speaks TLS only and asks for client certificates
// when clientAuth says so.
func StartTLS(t testing.TB, certs *Certificates, clientAuth bool, config ...string) *Server {
	t.Helper()
	s := prepare(t, config)
	auth := "no"
	if clientAuth {
		auth = "yes"
	}
	s.TLS = certs
	s.args = append(s.args, "--port", "0", "--tls-port", strconv.Itoa(s.port),
		"--tls-cert-file", certs.ServerCert, "--tls-key-file", certs.ServerKey,
		"--tls-ca-cert-file", certs.CA, "--tls-auth-clients", auth)
	s.Restart()
	return s
}

// prepare chooses a port and writes down how the server is to be started.
func prepare(t testing.TB, config []string) *Server {
	t.Helper()
	need(t, "redis-server")
	s := &Server{t: t, dir: t.TempDir(), port: freePort(t)}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	s.args = []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--protected-mode", "no", "--enable-debug-command", "yes"}
	for _, line := range config {
		name, value, _ := strings.Cut(line, " ")
		s.args = append(s.args, "--"+name)
		s.args = append(s.args, strings.Fields(value)...)
	}
	t.Cleanup(s.Kill)
	return s
}

// need fails the test when a program is missing.
func need(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%s is missing: install Debian's redis-server (apt-get install redis-server), or run make deps", program)
	}
}

// freePort finds a port that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Restart starts the server, again after Stop or Kill, on the same port and with
// the files that it left.
func (s *Server) Restart() {
	s.t.Helper()
	s.start("redis-server", s.args...)
	s.Await("PONG", "PING")
}

func (s *Server) start(program string, args ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	log := &bytes.Buffer{}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("start %s: %v", program, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // a killed process ends with an error
		close(done)
	}()
	s.cmd, s.done, s.log = cmd, done, log
}

// Await repeats a command until its reply contains want.
func (s *Server) Await(want string, command ...string) {
	s.t.Helper()
	var got string
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got = s.TryDo(command...); strings.Contains(got, want) {
			return
		}
		s.mu.Lock()
		done := s.done
		s.mu.Unlock()
		select {
		case <-done:
			s.t.Fatalf("redis-server on %s ended by itself:\n%s", s.Addr, s.log)
		default:
		}
	}
	s.t.Fatalf("redis-server on %s: %s = %q, want %q", s.Addr, strings.Join(command, " "), got, want)
}

// Stop shuts the server down in order.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server as a crash would.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// end sends a signal and waits until the process is gone.
func (s *Server) end(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGCONT) // it may be paused
	_ = s.cmd.Process.Signal(sig)             // it may be gone already
	<-s.done
	s.cmd = nil
}

// Pause stops the process where it is: connections stay open and nothing is
// answered. Resume lets it go on.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal %s: %v", sig, err)
	}
}

// Do runs a command with redis-cli and gives what it prints, without the last
// newline. It fails the test when the server cannot be reached or answers an
// error.
func (s *Server) Do(command ...string) string {
	s.t.Helper()
	out, err := s.cli(command...).CombinedOutput()
	text := strings.TrimRight(string(out), "\n")
	if err != nil {
		s.t.Fatalf("redis-cli %s: %v: %s", strings.Join(command, " "), err, text)
	}
	return text
}

// TryDo is Do for commands that may fail; it gives what was printed.
func (s *Server) TryDo(command ...string) string {
	out, _ := s.cli(command...).CombinedOutput() // the error shows in what is printed
	return strings.TrimRight(string(out), "\n")
}

func (s *Server) cli(command ...string) *exec.Cmd {
	args := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-e", "--raw"}
	if s.Password != "" {
		args = append(args, "--no-auth-warning", "-a", s.Password)
	}
	if s.TLS != nil {
		args = append(args, "--tls", "--insecure", "--cacert", s.TLS.CA, "--cert", s.TLS.ClientCert, "--key", s.TLS.ClientKey)
	}
	return exec.Command("redis-cli", append(args, command...)...)
}

// Info gives one field of INFO, as text.
func (s *Server) Info(section, field string) string {
	s.t.Helper()
	for line := range strings.Lines(s.Do("INFO", section)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

// InfoInt gives one number of INFO.
func (s *Server) InfoInt(section, field string) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(s.Info(section, field), 10, 64)
	if err != nil {
		s.t.Fatalf("INFO %s: %s: %v", section, field, err)
	}
	return n
}

// URL gives the address as the store takes it.
func (s *Server) URL() string {
	scheme, user := "redis", ""
	if s.TLS != nil {
		scheme = "rediss"
	}
	if s.Password != "" {
		user = ":" + s.Password + "@"
	}
	return fmt.Sprintf("%s://%s%s", scheme, user, s.Addr)
}

// writeConfig writes a configuration file into the server's directory.
func (s *Server) writeConfig(name string, lines ...string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}
