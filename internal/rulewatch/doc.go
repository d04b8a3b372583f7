// Package rulewatch keeps rules as they are on disk: it loads them, watches the
// files, and hands every new good set to its user exactly once.
//
// [New] loads for the first time; [Watcher.Run] watches until its context ends;
// [Watcher.Reload] looks at once, for a signal such as SIGHUP.
//
// Whatever way a file is changed is noticed: written in place, renamed over,
// deleted and made anew, or a symbolic link on the way to it swapped, as
// Kubernetes does with the ..data link of a ConfigMap. The kernel's notices (inotify and its
// kin) say that something happened; what counts is what the files then hold. So a
// notice that is missed, or a file system that sends none, only costs time: the
// files are also looked at every Options.Poll.
//
// A change is taken up once the files have been quiet for Options.Debounce, so
// that ten files written together are one change. A file that has gone, or has
// been emptied, is given Options.Grace to come back, because many tools remove and
// write again; a domain is not dropped for the moment in between. So is a set that
// does not load, as a file may be half written. Then it is reported, and the last
// good set stays.
package rulewatch
