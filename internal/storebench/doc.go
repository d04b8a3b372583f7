// Package storebench measures stores, one decision about one key at a time, beside
// what a store must at least pay ([MemoryFloor], [RedisFloor]): in a closed loop,
// in which each caller asks again when it has its answer, and in an open loop, in
// which calls come at their time whatever becomes of those before.
package storebench
