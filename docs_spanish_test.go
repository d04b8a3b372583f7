package caudal_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inEnglish gives a line of a timeline as the tests read it. Lines in English stay
// as they are.
func inEnglish(line string) string { return fromSpanish.Replace(line) }

var fromSpanish = strings.NewReplacer(
	"llamadas que cuestan", "calls of cost",
	"llamada que cuesta", "call of cost",
	"se devuelve la última", "last call taken back",
	"la última sale en", "last leaves after",
	"reintento en", "retry after",
	"lleno en", "full after",
	"llamadas", "calls",
	"llamada", "call",
	"admitidas", "allowed",
	"admitida", "allowed",
	"rechazadas", "denied",
	"rechazada", "denied",
	"consulta", "peek",
	"quedan", "remaining",
	"nunca", "never",
)

// TestSpanishTimelinesAreThoseInEnglish: what docs/es/algoritmos.md runs is run by
// docs/algorithms.md, too, with the same figures.
func TestSpanishTimelinesAreThoseInEnglish(t *testing.T) {
	worst := regexp.MustCompile(`(?m)^worst .*\n`)
	timelines := func(page string) (all []string) {
		for _, b := range timelineBlock.FindAllStringSubmatch(string(read(t, page)), -1) {
			all = append(all, strings.Join(strings.Fields(inEnglish(worst.ReplaceAllString(b[1], ""))), " "))
		}
		return all
	}
	english := timelines("docs/algorithms.md")
	for _, got := range timelines("docs/es/algoritmos.md") {
		if !slices.Contains(english, got) {
			t.Errorf("docs/es/algoritmos.md has a timeline that docs/algorithms.md does not have:\n%s", got)
		}
	}
}

// spanishPages names, for each page in Spanish, the pages whose tables it has.
var spanishPages = map[string][]string{
	"docs/es/README.md":     {"README.md"},
	"docs/es/elegir.md":     {"README.md", "docs/algorithms.md"},
	"docs/es/algoritmos.md": {"docs/algorithms.md"},
	"docs/es/equidad.md":    {"docs/identity.md", "docs/algorithms.md"},
	"docs/es/reglas.md":     {"docs/rules.md"},
}

// TestSpanishTablesHaveTheFiguresOfTheEnglish: each row of a table in Spanish has
// the numbers and the names of settings that a row has in English.
func TestSpanishTablesHaveTheFiguresOfTheEnglish(t *testing.T) {
	rows := 0
	walkModule(t, func(page string) {
		if !strings.HasPrefix(page, "docs/es/") {
			return
		}
		var english []string
		for _, source := range spanishPages[page] {
			for _, row := range tableRow.FindAllString(string(read(t, source)), -1) {
				english = append(english, figures(row))
			}
		}
		for _, row := range tableRow.FindAllString(string(read(t, page)), -1) {
			if got := figures(row); got != "" {
				if rows++; !slices.Contains(english, got) {
					t.Errorf("%s: no table of %v has a row with the figures %s, as this one:\n%s", page, spanishPages[page], got, row)
				}
			}
		}
	})
	if rows < 50 {
		t.Errorf("found %d rows with figures: the search is broken", rows)
	}
}

var (
	tableRow   = regexp.MustCompile(`(?m)^\|.*\|$`)
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	figure     = regexp.MustCompile("`[^`]*`|[0-9]+")
)

// figures gives the numbers and the code of a row of a table, in the order of the
// alphabet, as languages put words in another order.
func figures(row string) string {
	all := figure.FindAllString(linkTarget.ReplaceAllString(row, "]"), -1)
	slices.Sort(all)
	return strings.Join(all, " ")
}
