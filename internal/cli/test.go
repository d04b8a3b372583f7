package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/ruletest"
)

type testOptions struct {
	rule  rule.Options
	json  bool
	junit bool
}

func newTest(s Streams) *cobra.Command {
	o := testOptions{rule: rule.Options{ForAttributes: true}}
	cmd := &cobra.Command{
		Use:   "test FILE...",
		Short: "Run tests of rules, on a clock of their own",
		Long: `A test file is YAML beside the rules, with a name that ends in _test.yaml: requests at given times, and
what is expected of them. Of a directory, all such files are run. The requests go through the real limiter;
a day passes in no time.`,
		Example: `  caudal test rules/
  caudal test --junit rules/public-api_test.yaml > report.xml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return nil
			}
			return usagef("name a test file or a directory, such as caudal test rules/", "no tests to run")
		},
		RunE: func(_ *cobra.Command, args []string) error { return test(s, o, args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.BoolVar(&o.junit, "junit", false, "print JUnit's XML")
	addRuleOptions(cmd, &o.rule)
	return cmd
}

func test(s Streams, o testOptions, paths []string) error {
	if o.json && o.junit {
		return usagef("use one of them", "--json and --junit are two forms of one report")
	}
	files, err := testFiles(paths)
	if err != nil {
		return failedAs(s, o.json, err)
	}
	reports := []*ruletest.Report{}
	failed, cases := 0, 0
	for _, file := range files {
		r, err := ruletest.Run(file, o.rule)
		if err != nil {
			return failedAs(s, o.json, err)
		}
		reports = append(reports, r)
		failed, cases = failed+r.Failed(), cases+len(r.Cases)
	}
	if err := printReports(s, o, reports, failed, cases); err != nil {
		return err
	}
	if failed > 0 {
		return &failure{code: exitFailed}
	}
	return nil
}

func printReports(s Streams, o testOptions, reports []*ruletest.Report, failed, cases int) error {
	switch {
	case o.json:
		return printJSON(s.Out, reports)
	case o.junit:
		return ruletest.WriteJUnit(s.Out, reports)
	}
	for _, r := range reports {
		if _, err := fmt.Fprintf(s.Out, "%s\n%s\n", r.File, r); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(s.Out, "%s, %d failed\n", plural(cases, "test"), failed)
	return err
}

// testFiles gives the files named, and of directories those in them whose names
// say that they are tests.
func testFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read tests: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		var found []string
		for _, pattern := range []string{"*_test.yaml", "*_test.yml"} {
			more, err := filepath.Glob(filepath.Join(path, pattern))
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no tests in %s: it holds no file that ends in _test.yaml", path)
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	return files, nil
}
