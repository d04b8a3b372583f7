// Package faults holds the tests of what the whole does when Redis is slow,
// wrong or gone: real servers, real faults, several processes. It has no code of
// its own.
package faults
