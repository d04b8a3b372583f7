package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/caudal-dev/caudal/identity"
)

func checkKeys(name string, text []byte) error {
	_, err := identity.ReadKeys(name, bytes.NewReader(text))
	return keysFailed(err)
}

// keysFailed takes the package's name off what it says.
func keysFailed(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "identity: "))
}

// editKeys exchanges what a file of keys holds, all at once: others see the old file
// or the new one. The file beside it, through which that is done, also keeps two
// edits from happening at a time.
func editKeys(name string, edit func([]byte) ([]byte, error)) (err error) {
	if target, err := os.Readlink(name); err == nil {
		return &failure{exitFailed, fmt.Sprintf("%s is a link to %s, and would be replaced by a file", name, target), "name the file itself"}
	}
	temporary := name + ".new"
	out, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &failure{exitFailed, fmt.Sprintf("%s is there: somebody else edits the keys", temporary), "try again; remove it if nobody does"}
	}
	if err != nil {
		return fmt.Errorf("cannot edit keys: %w", err)
	}
	defer func() {
		if err != nil {
			_ = out.Close()
			_ = os.Remove(temporary)
		}
	}()
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot edit keys: %w", err)
	}
	if err := checkKeys(name, text); err != nil {
		return err // a file that does not load is mended by hand first
	}
	changed, err := edit(slices.Clip(text))
	if err != nil {
		return err
	}
	if err := checkKeys(name, changed); err != nil {
		return err
	}
	return writeKeys(out, name, changed)
}

func writeKeys(out *os.File, name string, text []byte) error {
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("cannot edit keys: %w", err)
	}
	if err := errors.Join(out.Sync(), out.Close(), os.Rename(out.Name(), name)); err != nil {
		return fmt.Errorf("cannot edit keys: %w", err)
	}
	return nil
}
