package redisstore

// CountsUntil is shown to the tests, which follow receipts.
var CountsUntil = countsUntil
