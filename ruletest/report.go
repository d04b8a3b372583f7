package ruletest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// String renders the report for people: one line for each test that passed, and
// the timeline of each that failed.
func (r *Report) String() string {
	var b strings.Builder
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.OK {
			fmt.Fprintf(&b, "ok    %s\n", c.Name)
			continue
		}
		fmt.Fprintf(&b, "FAIL  %s (%s)\n%s", c.Name, c.Position, c.timeline())
	}
	return b.String()
}

// timeline writes the steps of a failed test, what was expected and what came
// under one another.
func (c *Case) timeline() string {
	var b strings.Builder
	for _, m := range c.Timeline {
		if m.OK {
			fmt.Fprintf(&b, "  %8s  %s\n            %s\n", m.At, m.Request, m.Got)
			continue
		}
		fmt.Fprintf(&b, "  %8s  %s  <- %s\n            expected: %s\n            got:      %s\n", m.At, m.Request, m.Position, m.Expected, m.Got)
	}
	return b.String()
}

// The elements of a JUnit report, as CI systems read them.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr"`
		Line    string        `xml:"line,attr"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes reports in JUnit's XML.
func WriteJUnit(w io.Writer, reports []*Report) error {
	var all junitSuites
	for _, r := range reports {
		suite := junitSuite{Name: r.File, Tests: len(r.Cases), Failures: r.Failed()}
		for i := range r.Cases {
			c := &r.Cases[i]
			j := junitCase{Class: r.File, Name: c.Name, File: r.File, Line: strconv.Itoa(c.Position.Line)}
			if !c.OK {
				last := c.Timeline[len(c.Timeline)-1]
				j.Failure = &junitFailure{Message: fmt.Sprintf("at %s: expected %s, got %s", last.At, last.Expected, last.Got), Text: c.timeline()}
			}
			suite.Cases = append(suite.Cases, j)
		}
		all.Suites = append(all.Suites, suite)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
