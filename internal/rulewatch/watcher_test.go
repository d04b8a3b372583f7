package rulewatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/rule"
)

// patience is how long a test waits for what should come at once.
const patience = 8 * time.Second

// watched is a watcher at work, with what it reports.
type watched struct {
	*Watcher
	results chan Result
	errs    chan error
	refuse  error // what Loaded answers
}

// watch runs a watcher. With a poll of zero only notices can tell it of anything;
// otherwise there are none.
func watch(t *testing.T, poll time.Duration, paths ...string) *watched {
	t.Helper()
	w := &watched{results: make(chan Result, 100), errs: make(chan error, 100)}
	o := Options{
		Paths: paths, Debounce: 25 * time.Millisecond, Grace: 150 * time.Millisecond,
		Poll: time.Hour, NoNotices: poll > 0,
		Loaded: func(r Result) error { w.results <- r; return w.refuse },
		Failed: func(err error) { w.errs <- err },
	}
	if poll > 0 {
		o.Poll = poll
	}
	var err error
	if w.Watcher, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	w.want(t, 1)
	return w
}

// want waits for the next set and checks that it is the one of this number: a
// change that was taken up twice would show as the number before.
func (w *watched) want(t *testing.T, n int) Result {
	t.Helper()
	select {
	case r := <-w.results:
		if got := requests(r.Set); got != n {
			t.Fatalf("loaded the set of %d requests, want that of %d", got, n)
		}
		return r
	case err := <-w.errs:
		t.Fatalf("refused: %v, want the set of %d requests", err, n)
	case <-time.After(patience):
		t.Fatalf("nothing was loaded, want the set of %d requests", n)
	}
	return Result{}
}

func (w *watched) wantError(t *testing.T, part string) {
	t.Helper()
	select {
	case err := <-w.errs:
		if !strings.Contains(err.Error(), part) {
			t.Fatalf("refused: %v, want %q", err, part)
		}
	case r := <-w.results:
		t.Fatalf("loaded the set of %d requests, want an error", requests(r.Set))
	case <-time.After(patience):
		t.Fatalf("nothing was refused, want %q", part)
	}
}

func requests(s *rule.Set) int { return int(s.Limits()[0].Compiled.Requests()) }

func rules(domain string, n int) string {
	return fmt.Sprintf("domain: %s\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: %d}}]\n", domain, n)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ways are the ways in which people and tools change a file.
var ways = []struct {
	name   string
	change func(t *testing.T, dir string, n int)
}{
	{"in place", func(t *testing.T, dir string, n int) { write(t, filepath.Join(dir, "a.yaml"), rules("a", n)) }},
	{"in place in two writes", func(t *testing.T, dir string, n int) {
		f, err := os.OpenFile(filepath.Join(dir, "a.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
		must(t, err)
		text := rules("a", n)
		_, err = f.WriteString(text[:20])
		must(t, err)
		must(t, f.Sync())
		_, err = f.WriteString(text[20:])
		must(t, err)
		must(t, f.Close())
	}},
	{"renamed over", func(t *testing.T, dir string, n int) {
		write(t, filepath.Join(dir, ".a.yaml.tmp"), rules("a", n))
		must(t, os.Rename(filepath.Join(dir, ".a.yaml.tmp"), filepath.Join(dir, "a.yaml")))
	}},
	{"deleted and made anew", func(t *testing.T, dir string, n int) {
		must(t, os.Remove(filepath.Join(dir, "a.yaml")))
		write(t, filepath.Join(dir, "a.yaml"), rules("a", n))
	}},
	{"the directory made anew", func(t *testing.T, dir string, n int) {
		must(t, os.RemoveAll(dir))
		must(t, os.Mkdir(dir, 0o700))
		write(t, filepath.Join(dir, "a.yaml"), rules("a", n))
	}},
}

// TestC47EveryWayOfChangeIsOneReload: by notices alone and by polling alone, a
// watched directory and a watched file.
func TestC47EveryWayOfChangeIsOneReload(t *testing.T) {
	for _, poll := range []time.Duration{0, 5 * time.Millisecond} {
		for _, single := range []bool{false, true} {
			for _, way := range ways {
				t.Run(fmt.Sprintf("%s, poll %v, single file %v", way.name, poll, single), func(t *testing.T) {
					t.Parallel()
					dir := filepath.Join(t.TempDir(), "rules")
					must(t, os.Mkdir(dir, 0o700))
					write(t, filepath.Join(dir, "a.yaml"), rules("a", 1))
					path := dir
					if single {
						path = filepath.Join(dir, "a.yaml")
					}
					w := watch(t, poll, path)
					for n := 2; n <= 4; n++ {
						way.change(t, dir, n)
						w.want(t, n)
					}
				})
			}
		}
	}
}

// TestC47ConfigMap: Kubernetes puts the files into a directory of its own and
// swaps one link, ..data, to it. The file's link never changes.
func TestC47ConfigMap(t *testing.T) {
	for _, poll := range []time.Duration{0, 5 * time.Millisecond} {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprintf("poll %v, single file %v", poll, single), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				swap := func(n int) {
					version := fmt.Sprintf("..2026_%d", n)
					must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
					write(t, filepath.Join(dir, version, "a.yaml"), rules("a", n))
					must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
					must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
					if n > 1 {
						must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_%d", n-1))))
					}
				}
				swap(1)
				must(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
				path := dir
				if single {
					path = filepath.Join(dir, "a.yaml")
				}
				w := watch(t, poll, path)
				for n := 2; n <= 4; n++ {
					swap(n)
					w.want(t, n)
				}
			})
		}
	}
}

// TestC47LinkedDirectory: the reference's way, a link to the directory that is
// swapped.
func TestC47LinkedDirectory(t *testing.T) {
	for _, poll := range []time.Duration{0, 5 * time.Millisecond} {
		root := t.TempDir()
		swap := func(n int) {
			version := filepath.Join(root, fmt.Sprint(n))
			must(t, os.Mkdir(version, 0o700))
			write(t, filepath.Join(version, "a.yaml"), rules("a", n))
			must(t, os.Symlink(version, filepath.Join(root, "tmp")))
			must(t, os.Rename(filepath.Join(root, "tmp"), filepath.Join(root, "current")))
		}
		swap(1)
		w := watch(t, poll, filepath.Join(root, "current"))
		for n := 2; n <= 3; n++ {
			swap(n)
			w.want(t, n)
		}
	}
}

// TestC48OtherFilesAreNoChange: what editors leave behind, and a touch, reload
// nothing; the next real change is the next set.
func TestC48OtherFilesAreNoChange(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.yaml")
	write(t, name, rules("a", 1))
	w := watch(t, 5*time.Millisecond, dir)
	for _, other := range []string{".a.yaml.swp", "a.yaml~", "README.md", "#a.yaml#"} {
		write(t, filepath.Join(dir, other), rules("a", 99))
	}
	later := time.Now().Add(time.Minute)
	must(t, os.Chtimes(name, later, later))
	w.check(true) // as a notice would, but here and now
	if len(w.results) != 0 || len(w.errs) != 0 {
		t.Errorf("%d sets were loaded and %d refused, want none", len(w.results), len(w.errs))
	}
	write(t, name, rules("a", 2))
	w.want(t, 2)
}

// TestSeveralFilesAreOneChange: files written together come as one set, and a
// file that is gone for a moment takes no domain away.
func TestSeveralFilesAreOneChange(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "b", "c"} {
		write(t, filepath.Join(dir, d+".yaml"), rules(d, 1))
	}
	w := watch(t, 0, dir)
	for n := 2; n <= 4; n++ {
		must(t, os.Remove(filepath.Join(dir, "a.yaml")))
		for _, d := range []string{"c", "b", "a"} {
			write(t, filepath.Join(dir, d+".yaml"), rules(d, n))
		}
		r := w.want(t, n)
		if got := len(r.Set.Domains()); got != 3 {
			t.Fatalf("set %d has %d domains, want 3", n, got)
		}
		for _, l := range r.Set.Limits() {
			if int(l.Compiled.Requests()) != n {
				t.Fatalf("set %d has a limit of %d: the change came in pieces", n, l.Compiled.Requests())
			}
		}
	}
	must(t, os.Remove(filepath.Join(dir, "b.yaml"))) // for good
	if r := w.want(t, 4); len(r.Set.Domains()) != 2 {
		t.Errorf("after a file was removed %d domains are left, want 2", len(r.Set.Domains()))
	}
}

// TestC52BadFileKeepsTheGoodSet: it is refused once, with its place, and the next
// good one is taken up.
func TestC52BadFileKeepsTheGoodSet(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), rules("a", 1))
	w := watch(t, 5*time.Millisecond, dir)
	write(t, filepath.Join(dir, "b.yaml"), "domain: b\ndescriptors: [{key: user, ratelimit: {}}]\n")
	w.wantError(t, "b.yaml:2:27: descriptors[0].ratelimit")
	if err := w.Reload(); err == nil {
		t.Error("Reload of a bad set gives no error")
	}
	w.wantError(t, "b.yaml:2:27") // of Reload; the same files are not refused by themselves again
	write(t, filepath.Join(dir, "b.yaml"), rules("b", 5))
	if r := w.want(t, 1); len(r.Set.Domains()) != 2 {
		t.Errorf("the mended set has %d domains, want 2", len(r.Set.Domains()))
	}
	must(t, os.RemoveAll(dir))
	w.wantError(t, "no such file")
}

// TestNewRefuses: a watcher whose rules do not load says so, and goes on.
func TestNewRefuses(t *testing.T) {
	if _, err := New(Options{Loaded: func(Result) error { return nil }}); err == nil {
		t.Error("New without paths gives no error")
	}
	if _, err := New(Options{Paths: []string{"x"}}); err == nil {
		t.Error("New without Loaded gives no error")
	}
	dir := t.TempDir()
	loads := 0
	w, err := New(Options{Paths: []string{dir}, Loaded: func(Result) error { loads++; return nil }})
	if err == nil || loads != 0 {
		t.Fatalf("New of an empty directory = %v after %d loads, want an error and none", err, loads)
	}
	write(t, filepath.Join(dir, "a.yaml"), rules("a", 1))
	if err := w.Reload(); err != nil || loads != 1 {
		t.Errorf("Reload = %v after %d loads, want one", err, loads)
	}
	refused := errors.New("not with these domains")
	w.opts.Loaded = func(Result) error { return refused }
	if err := w.Reload(); !errors.Is(err, refused) {
		t.Errorf("Reload = %v, want what Loaded says", err)
	}
}

// TestC84LoweredTenfold: the result names the limit with both values.
func TestC84LoweredTenfold(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.yaml")
	write(t, name, rules("a", 1))
	w := watch(t, 0, dir)
	write(t, name, rules("a", 1000))
	if r := w.want(t, 1000); len(r.Changes) != 1 || len(r.Lowered) != 0 {
		t.Errorf("raised: %d changes and %d lowered, want 1 and 0", len(r.Changes), len(r.Lowered))
	}
	write(t, name, rules("a", 100))
	if r := w.want(t, 100); len(r.Lowered) != 0 {
		t.Errorf("lowered tenfold: %v, want no warning", r.Lowered)
	}
	write(t, name, rules("a", 9))
	r := w.want(t, 9)
	if len(r.Lowered) != 1 {
		t.Fatalf("lowered more than tenfold: %v, want one", r.Lowered)
	}
	if text := r.Lowered[0].String(); !strings.Contains(text, "requests_per_unit 100 -> 9") {
		t.Errorf("it says %q, want both values", text)
	}
}
