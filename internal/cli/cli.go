package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caudal-dev/caudal/internal/serve"
	"github.com/caudal-dev/caudal/internal/spell"
	"github.com/caudal-dev/caudal/rule"
)

// The exit codes of every command.
const (
	exitFine     = 0
	exitFailed   = 1 // something is invalid, or failed
	exitUsage    = 2 // the command line or the environment is wrong
	exitWarnings = 3 // warnings, where --strict forbids them
)

// Streams is what a command line has around it.
type Streams struct {
	Out, Err io.Writer
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Version is the version of the program; empty when it was not built with one.
	Version string
}

// System gives the streams of the process.
func System(version string) Streams {
	return Streams{Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Version: version}
}

// Main runs a command line, without the program's name, and gives its exit code.
func Main(args []string, s Streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return exitFine
	}
	report(s.Err, err)
	return exitCode(err)
}

func newRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "caudal",
		Short: "A rate limiter in front of an API",
		Example: `  caudal demo
  caudal serve --upstream http://127.0.0.1:3000 --limit 100/m --by ip
  caudal serve --upstream http://127.0.0.1:3000 --rules rules/
  caudal check rules/`,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate("{{.Short}}.\n\n{{.UsageString}}{{with .Long}}\n{{. | trimTrailingWhitespaces}}\n{{end}}")
	root.SetFlagErrorFunc(flagError)
	root.Version = versionLine(s)
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(newServe(s), newInit(s), newCheck(s), newExplain(s), newTest(s), newDiff(s), newSchema(s), newKeys(s), newHash(s), newDemo(s), newStatus(s), newBlock(s), newUnblock(s), newEnforcement(s), newBench(s), newVersion(s))
	// Cobra's own command takes any argument and prints its help.
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = knownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			c.Short = "Print the script that completes commands in a shell"
			c.Long = "See the help of each for how to use it."
		}
	}
	return root
}

// usageTemplate puts the examples first: they are what people look for.
const usageTemplate = `{{if .HasExample}}Examples:
{{.Example}}

{{end}}Usage:
  {{.UseLine}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}

Exit codes: 0 fine, 1 invalid or failed, 2 usage, 3 warnings under --strict
`

// failure is an error with an exit code and, perhaps, a hint. Without a text it
// is the exit code alone: all has been said.
type failure struct {
	code       int
	what, hint string
}

func (e *failure) Error() string { return e.what }

func usagef(hint, format string, args ...any) error {
	return &failure{exitUsage, fmt.Sprintf(format, args...), hint}
}

func exitCode(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	var setup *serve.Error
	if errors.As(err, &setup) && setup.Missing {
		return exitUsage
	}
	return exitFailed
}

// report writes an error for people: what is wrong, and how to mend it.
func report(w io.Writer, err error) {
	var errs rule.Errors
	var setup *serve.Error
	var f *failure
	switch {
	case errors.As(err, &errs):
		reportRules(w, errs)
	case errors.As(err, &setup):
		reportOne(w, setup.What, setup.Hint)
	case errors.As(err, &f):
		if f.what != "" {
			reportOne(w, f.what, f.hint)
		}
	default:
		reportPlain(w, err)
	}
}

// reportPlain writes an error that brings no hint of its own.
func reportPlain(w io.Writer, err error) {
	what, ofRules := strings.CutPrefix(err.Error(), "rule: ")
	what, ofKeys := strings.CutPrefix(what, "identity: cannot read keys: ")
	hint := ""
	switch {
	case ofKeys:
		what, hint = "cannot read keys: "+what, "name a file of keys that this user may read; caudal keys add makes one"
	case ofRules && errors.Is(err, fs.ErrNotExist):
		hint = "name a rule file or a directory of them; caudal init writes a first one"
	}
	reportOne(w, what, hint)
}

func reportOne(w io.Writer, what, hint string) {
	fmt.Fprintln(w, "caudal: "+what)
	if hint != "" {
		fmt.Fprintln(w, "hint: "+hint)
	}
}

// reportRules writes the mistakes of files, each with its place first, so that
// editors find it.
func reportRules(w io.Writer, errs rule.Errors) {
	for _, e := range errs {
		plain := *e
		plain.Hint = ""
		fmt.Fprintln(w, plain.Error())
		if e.Hint != "" {
			fmt.Fprintln(w, "hint: "+e.Hint)
		}
	}
	fmt.Fprintf(w, "caudal: %s\n", plural(len(errs), "error"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// nearest gives the name that a mistyped word was probably meant to be.
func nearest(word string, names []string) string { return spell.Nearest(word, names) }

func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if near := nearest(args[0], names); near != "" {
		hint = "did you mean " + near + "?"
	}
	return usagef(hint, "unknown command %q", args[0])
}

// noArgs refuses arguments beside flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef(fmt.Sprintf("see %s --help", cmd.CommandPath()), "%s takes no argument, but was given %q", cmd.CommandPath(), args[0])
}

// flagError says what is wrong with a flag, and which was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("see %s --help", cmd.CommandPath())
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest(name, names); near != "" {
			hint = "did you mean --" + near + "?"
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return usagef(hint, "--%s %v", invalid.GetFlag().Name, invalid.Unwrap())
	}
	return usagef(hint, "%v", err)
}
