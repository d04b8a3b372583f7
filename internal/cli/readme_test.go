package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// block is a fenced block of a page.
type block struct {
	page           string
	line           int
	language, text string
}

var fencedBlock = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// readmes are the pages to begin with, in English and in Spanish.
var readmes = []string{"README.md", "docs/es/README.md"}

func readPage(t *testing.T, page string) (blocks []block, text string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	text = string(data)
	for _, m := range fencedBlock.FindAllStringSubmatchIndex(text, -1) {
		blocks = append(blocks, block{page, 1 + strings.Count(text[:m[0]], "\n"), text[m[2]:m[3]], text[m[4]:m[5]]})
	}
	return blocks, text
}

// TestREADME runs every command of the pages and compares what it prints with what
// the page says. Blocks come in four kinds, and each is checked.
func TestREADME(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("the README's commands need curl: install it, for example with apt-get install curl")
	}
	for _, page := range readmes {
		t.Run(page, func(t *testing.T) { runPage(t, page) })
	}
}

// runPage gives each page a demo of its own, as each uses its limits up.
func runPage(t *testing.T, page string) {
	blocks, _ := readPage(t, page)
	gateway := startDemo(t)
	dir := t.TempDir()
	seen := map[string]int{}
	for _, b := range blocks {
		seen[b.language]++
		switch b.language {
		case "yaml":
			got, want := b.text, demoRules
			if page != "README.md" {
				got, want = withoutComments(got), withoutComments(want)
			}
			if got != want {
				t.Errorf("%s:%d: these are not the demo's rules; they are\n%s", b.page, b.line, demoRules)
			}
		case "go":
			buildProgram(t, b)
		case "sh":
			runForGood(t, b)
		case "console":
			runConsole(t, b, dir, gateway)
		default:
			t.Errorf("%s:%d: no test knows what to do with a block of %q", b.page, b.line, b.language)
		}
	}
	for _, language := range []string{"yaml", "go", "sh", "console"} {
		if seen[language] == 0 {
			t.Errorf("%s has no block of %s: the search is broken", page, language)
		}
	}
}

// TestConsolesOfPages runs the commands of the other pages, in order.
func TestConsolesOfPages(t *testing.T) {
	files, err := filepath.Glob("../../docs/es/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		page := "docs/es/" + filepath.Base(file)
		if slices.Contains(readmes, page) {
			continue
		}
		blocks, _ := readPage(t, page)
		dir := t.TempDir()
		for _, b := range blocks {
			if b.language == "console" {
				found++
				runConsole(t, b, dir, demoAddress)
			}
		}
	}
	if found == 0 {
		t.Error("found no commands on pages: the search is broken")
	}
}

// withoutComments takes out of YAML what stands in the language of the page.
func withoutComments(text string) string {
	return regexp.MustCompile(`(?m) *#.*$`).ReplaceAllString(text, "")
}

// TestDemoTriesStandInTheREADME keeps the two lists one.
func TestDemoTriesStandInTheREADME(t *testing.T) {
	for _, page := range readmes {
		_, text := readPage(t, page)
		for _, try := range demoTries {
			if !strings.Contains(text, "\n$ "+try.command+"\n") {
				t.Errorf("%s does not have the demo's command\n$ %s", page, try.command)
			}
		}
	}
	if !strings.Contains(demoText("127.0.0.1:9999", ""), "http://127.0.0.1:9999/login") {
		t.Errorf("the demo prints commands for another address than its own:\n%s", demoText("127.0.0.1:9999", ""))
	}
}

// process is a caudal that runs until the test ends.
type process struct {
	cmd   *exec.Cmd
	lines chan string // what it prints, both streams; closed when it has ended
	ended chan error
}

// launch starts caudal on ports that are free.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command("caudal", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CAUDAL_LISTEN=127.0.0.1:0", "CAUDAL_ADMIN_LISTEN=127.0.0.1:0")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close() // the process has its own
	p := &process{cmd: cmd, lines: make(chan string, 10_000), ended: make(chan error, 1)}
	go func() {
		for scanner := bufio.NewScanner(r); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
		_ = r.Close()
		p.ended <- cmd.Wait()
	}()
	t.Cleanup(func() { p.end(t) })
	return p
}

// patience is how long a process may take for what takes it no time, on a machine
// that is busy with other tests.
const patience = time.Minute

// end asks it to end, as a service manager does, and wants exit code 0.
func (p *process) end(t *testing.T) {
	t.Helper()
	if p.ended == nil {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM to %v = %v", p.cmd.Args, err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("%v after SIGTERM = %v, want exit code 0", p.cmd.Args, err)
		}
	case <-time.After(patience):
		t.Errorf("%v is still there %v after SIGTERM", p.cmd.Args, patience)
		_ = p.cmd.Process.Kill()
	}
	p.ended = nil
}

// waitFor reads what the process prints until a line matches, and gives the
// match's last group.
func (p *process) waitFor(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var printed []string
	timeout := time.After(patience)
	for {
		select {
		case line, more := <-p.lines:
			printed = append(printed, line)
			if m := re.FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
			if more {
				continue
			}
		case <-timeout:
		}
		t.Fatalf("%v never printed %s; it printed\n%s", p.cmd.Args, pattern, strings.Join(printed, "\n"))
	}
}

func startDemo(t *testing.T) (gateway string) {
	t.Helper()
	p := launch(t, "demo", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	gateway = p.waitFor(t, `^  gateway  http://(\S+)$`)
	p.waitFor(t, `^Ctrl-C ends it`)
	return gateway
}

// runForGood checks the commands that run until they are stopped.
func runForGood(t *testing.T, b block) {
	t.Helper()
	switch command := strings.TrimSpace(b.text); command {
	case "make run":
		makefile, err := os.ReadFile("../../Makefile")
		if err != nil || !strings.Contains(string(makefile), "\nrun: build ") || !strings.Contains(string(makefile), "\n\tbin/caudal demo\n") {
			t.Errorf("%s:%d: make run does not build and run the demo (%v)", b.page, b.line, err)
		}
	case "caudal serve --upstream http://127.0.0.1:3000 --limit 100/m --by ip":
		server, upstream, err := startEcho()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		p := launch(t, strings.Fields(strings.Replace(command, "127.0.0.1:3000", upstream.Host, 1))[1:]...)
		defer p.end(t)
		address := p.waitFor(t, `msg=listening listener=gateway address=(\S+)`)
		res, err := http.Get("http://" + address + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got := res.Header.Get("X-RateLimit-Remaining"); res.StatusCode != http.StatusOK || got != "99" {
			t.Errorf("%s:%d: a call through %s = %d, %s remaining; want 200, 99 remaining", b.page, b.line, command, res.StatusCode, got)
		}
	default:
		t.Errorf("%s:%d: no test runs %q", b.page, b.line, command)
	}
}

// buildProgram checks that a program on the page compiles.
func buildProgram(t *testing.T, b block) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), file)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s:%d: the program does not compile: %v\n%s", b.page, b.line, err, out)
	}
}

// runConsole runs each command of a block and compares what it prints.
func runConsole(t *testing.T, b block, dir, gateway string) {
	t.Helper()
	for _, part := range strings.Split("\n"+b.text, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, demoAddress, gateway))
		cmd.Dir = dir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		began := time.Now()
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s:%d: %s = %v\n%s", b.page, b.line, command, err, &stderr)
			continue
		}
		if strings.HasSuffix(command, "| uniq -c") {
			compareCounts(t, b, command, want, string(out), time.Since(began))
			continue
		}
		if got, want := steady(string(out)), steady(want); got != want {
			t.Errorf("%s:%d: %s\nprints\n%s\nand not\n%s", b.page, b.line, command, got, want)
		}
	}
}

// varying are the numbers that time changes.
var varying = regexp.MustCompile(`(?mi)^(date|content-length|ratelimit|retry-after|x-ratelimit-reset): .*$|try again in [0-9a-z]+`)

// steady takes out of an output what is another at every run.
func steady(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = varying.ReplaceAllStringFunc(s, func(line string) string {
		return regexp.MustCompile(`(: |in ).*`).ReplaceAllString(line, "$1...")
	})
	return strings.TrimRight(s, "\n")
}

// compareCounts compares how many calls passed and were denied. A bucket refills
// while the command runs: 10 a second for the address, 1 for the queue.
func compareCounts(t *testing.T, b block, command, want, got string, took time.Duration) {
	t.Helper()
	perSecond := 10.0
	if strings.Contains(command, "/legacy/") {
		perSecond = 1
	}
	wantPassed, wantAll := counts(want)
	passed, all := counts(got)
	least, most := wantPassed-1, wantPassed+int(took.Seconds()*perSecond)+1
	if all != wantAll || passed < least || passed > most {
		t.Errorf("%s:%d: %s\nprints\n%s in %v: %d of %d passed, want %d to %d of %d", b.page, b.line, command, got, took, passed, all, least, most, wantAll)
	}
}

// counts reads the output of uniq -c: so many of each status.
func counts(s string) (passed, all int) {
	for line := range strings.Lines(s) {
		var n, status int
		if _, err := fmt.Sscan(line, &n, &status); err != nil {
			continue
		}
		all += n
		if status == http.StatusOK {
			passed += n
		}
	}
	return passed, all
}
