//go:build unix

package memstore

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a file for this process until it is closed, also by a kill. It
// reports false when another process has it.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
