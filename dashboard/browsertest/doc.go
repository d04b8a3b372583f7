// Package browsertest looks at the dashboard in a real browser: headless Chromium,
// driven by chromedp, in front of a running caudal. It has only tests, and is a module
// of its own so that nobody who uses caudal gets a browser's driver.
//
//	make test-browser    the tests
//	make screenshots     the pictures in docs/
package browsertest
