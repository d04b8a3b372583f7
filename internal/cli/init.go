package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// starter is what init writes: files that load, pass their tests and say why.
//
//go:embed starter
var starter embed.FS

func newInit(s Streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a first rule file, a test for it and a caudal.yaml",
		Long:  "It writes into DIR, by default the present one, and never over a file that is there.",
		Example: `  caudal init
  caudal init limits/ && cd limits && caudal check rules && caudal test rules`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) <= 1 {
				return nil
			}
			return usagef("see caudal init --help", "init takes one directory, not %d", len(args))
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			return initialise(s, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func initialise(s Streams, dir string, asJSON bool) error {
	files, err := fs.Sub(starter, "starter")
	if err != nil {
		return err
	}
	var names []string
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return &failure{exitFailed, filepath.Join(dir, name) + " is there already", "move it away, or name another directory"}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		return err
	}
	var written []string
	for _, name := range names {
		if err := writeNew(files, name, filepath.Join(dir, name)); err != nil {
			return err
		}
		written = append(written, filepath.Join(dir, name))
	}
	if asJSON {
		return printJSON(s.Out, map[string][]string{"files": written})
	}
	for _, name := range written {
		fmt.Fprintln(s.Out, name)
	}
	rules := filepath.Join(dir, "rules")
	_, err = fmt.Fprintf(s.Out, "\nnext: caudal check %s; caudal test %s; caudal serve --config %s\n", rules, rules, filepath.Join(dir, "caudal.yaml"))
	return err
}

func writeNew(files fs.FS, name, to string) error {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
