package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// CheckAddress says whether an address is one to listen on: host:port, unix:/path
// or off.
func CheckAddress(address string) error {
	if address == Off || strings.HasPrefix(address, "unix:") {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return errors.New(noAddress(address))
	}
	return nil
}

func noAddress(address string) string {
	return fmt.Sprintf("%q is no address to listen on: write host:port, such as 127.0.0.1:8000, or :8000 for every interface", address)
}

// listen opens a listener. The error says in one line which address, what stands
// in the way, and which setting changes it.
func listen(setting, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(setting, path)
	}
	flag := "--" + strings.ReplaceAll(setting, "_", "-")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &Error{What: setting + ": " + noAddress(address)}
	}
	ln, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &Error{What: fmt.Sprintf("port %s is in use: another caudal or a development server may hold %s"+
			" (ss -ltnp 'sport = :%s' or lsof -i :%s shows who); stop it, or choose another address with %s",
			port, address, port, port, flag)}
	case errors.Is(err, syscall.EACCES):
		return nil, &Error{What: fmt.Sprintf("this user may not listen on %s: ports below 1024 need a privilege; choose another with %s", address, flag)}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, &Error{What: fmt.Sprintf("no interface of this machine has the address %s; choose another with %s", host, flag)}
	}
	return nil, fmt.Errorf("cannot listen on %s (%s changes it): %w", address, flag, err)
}

// listenUnix opens a socket in the file system, for the owner and the group. What
// a process left behind that has ended is taken away; a socket in use, and any
// other file, is left alone.
func listenUnix(setting, path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		c, err := net.Dial("unix", path)
		if err == nil {
			_ = c.Close()
			return nil, &Error{What: fmt.Sprintf("%s: another process listens on %s", setting, path), Hint: "stop it, or choose another path"}
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path) // or the next line says why not
		}
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, &Error{What: fmt.Sprintf("%s: cannot listen on %s: %v", setting, path, err), Hint: "write unix: and a path in a directory that this user may write to"}
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}
