package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what a binary is made of.
type build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func buildOf(s Streams) build {
	return build{versionOf(s), runtime.Version(), runtime.GOOS, runtime.GOARCH}
}

// versionLine is what caudal version and caudal --version print.
func versionLine(s Streams) string {
	b := buildOf(s)
	return fmt.Sprintf("caudal %s (%s, %s/%s)", b.Version, b.Go, b.OS, b.Arch)
}

func newVersion(s Streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  caudal version
  caudal version --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(s.Out, buildOf(s))
			}
			_, err := fmt.Fprintln(s.Out, versionLine(s))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// versionOf gives the version that the binary was built with, or the module's,
// which go install knows.
func versionOf(s Streams) string {
	if s.Version != "" {
		return s.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
