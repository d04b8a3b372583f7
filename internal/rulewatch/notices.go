package rulewatch

import (
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// notices are what the kernel tells of the directories on the way to the files.
// Without them, as when the system has no more watches to give, there are none,
// and polling alone remains.
type notices struct {
	paths   []string
	watcher *fsnotify.Watcher // nil without notices
	happens chan struct{}
	done    chan struct{}
}

func (w *Watcher) listen() *notices {
	n := &notices{paths: w.opts.Paths, happens: make(chan struct{}, 1), done: make(chan struct{})}
	if w.opts.NoNotices {
		close(n.done)
		return n
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		close(n.done)
		return n
	}
	n.watcher = watcher
	n.renew()
	go n.forward()
	return n
}

// events gives a value for one or more notices.
func (n *notices) events() <-chan struct{} { return n.happens }

// forward makes one value of any number of notices, also of errors: an overflow
// means that notices were lost.
func (n *notices) forward() {
	defer close(n.done)
	for {
		select {
		case _, ok := <-n.watcher.Events:
			if !ok {
				return
			}
		case _, ok := <-n.watcher.Errors:
			if !ok {
				return
			}
		}
		select {
		case n.happens <- struct{}{}:
		default:
		}
	}
}

// renew watches the directories that matter now. A directory that was removed and
// made anew is another one and must be watched again; adding one twice does
// nothing.
func (n *notices) renew() {
	if n.watcher == nil {
		return
	}
	want := map[string]bool{}
	for _, path := range n.paths {
		for _, dir := range directories(path) {
			want[dir] = true
			_ = n.watcher.Add(dir) // polling covers what cannot be watched
		}
	}
	for _, dir := range n.watcher.WatchList() {
		if !want[dir] {
			_ = n.watcher.Remove(dir)
		}
	}
}

// directories gives those whose entries decide what the path means: the path
// itself if it is one, its parent, in which it can be renamed over or be a
// link, and the same of what it links to.
func directories(path string) []string {
	var dirs []string
	add := func(p string) {
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			dirs = append(dirs, p)
		}
		dirs = append(dirs, filepath.Dir(p))
	}
	path = filepath.Clean(path)
	add(path)
	if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
		add(target)
	}
	return dirs
}

func (n *notices) close() {
	if n.watcher != nil {
		_ = n.watcher.Close() // nothing to lose
	}
	<-n.done
}
