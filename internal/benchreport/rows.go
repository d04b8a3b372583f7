package main

// rows is the table of costs: what is measured, against which floor, and what is
// to be reached. Floors are benchmarks of the same run, so that the ratios hold
// on any machine.
var rows = []row{
	{what: "token bucket in memory, one hot key, 1 goroutine", bench: "BenchmarkHotKey/token_bucket", floor: "BenchmarkFloorTimeSince", bar: ratio(2), goal: ratio(1.3)},
	{what: "the same, all cores (floor: 1 goroutine)", bench: "BenchmarkHotKeyParallel", floor: "BenchmarkHotKey/token_bucket", bar: ratio(1), goal: figure(30)},
	{what: "1 M keys zipf, all cores", bench: "BenchmarkZipf1M", floor: "BenchmarkFloorMutexMapZipf1M", bar: ratio(0.65), goal: ratio(0.45)},
	{what: "10 M keys uniform, all cores", bench: "BenchmarkUniform10M", floor: "BenchmarkFloorMutexMapUniform10M", bar: ratio(0.4), goal: ratio(0.25)},
	{what: "allocations per decision, one hot key", bench: "BenchmarkHotKey/token_bucket", unit: "allocs/op", bar: figure(0), goal: figure(0)},
	{what: "allocations per decision, 1 M keys", bench: "BenchmarkZipf1M", unit: "allocs/op", bar: figure(0), goal: figure(0)},
	{what: "memory, 10 M token-bucket keys", bench: "BenchmarkMemory10M", unit: "heap-B/key", bar: figure(48), goal: figure(40)},
	{what: "full GC with 10 M token-bucket keys", bench: "BenchmarkMemory10M", unit: "GC-ms", bar: figure(10), goal: figure(5)},
	{what: "memory, 1 M token-bucket keys", bench: "BenchmarkMemory1M", unit: "heap-B/key", bar: figure(48), goal: figure(40)},
	{what: "full GC with 1 M token-bucket keys", bench: "BenchmarkMemory1M", unit: "GC-ms", bar: figure(10), goal: figure(5)},
	{what: "one hot key over Redis, exactly, 64 callers", bench: "BenchmarkTakeHot/exact/64", floor: "BenchmarkFloorEvalsha/64", bar: ratio(0.2), goal: ratio(0.1)},
	{what: "the same, 256 callers", bench: "BenchmarkTakeHot/exact/256", floor: "BenchmarkFloorEvalsha/256", bar: ratio(0.2), goal: ratio(0.1)},
	{what: "the same with leases, 64 callers", bench: "BenchmarkTakeHot/leased/64", floor: "BenchmarkFloorEvalsha/64", bar: ratio(0.1), goal: ratio(0.05)},
	{what: "metrics and the busiest keys: added to an allowed decision (1 is 15 % or 10 ns)", bench: "BenchmarkDecision/allowed", unit: "of-allowance", bar: figure(1), goal: figure(0.5)},
	{what: "the same, to a denied one", bench: "BenchmarkDecision/denied", unit: "of-allowance", bar: figure(1), goal: figure(0.5)},
	{what: "three times the upstream's capacity: critical calls lost", bench: "BenchmarkOverload/priorities", unit: "critical-lost-%", bar: figure(5), goal: figure(1)},
	{what: "the same: capacity of the upstream lost", bench: "BenchmarkOverload/priorities", unit: "capacity-lost-%", bar: figure(10), goal: figure(5)},
	{what: "the same: p99 of critical calls (a call alone: 50 ms)", bench: "BenchmarkOverload/priorities", unit: "critical-p99-ms", bar: figure(500), goal: figure(250)},
	{what: "one client makes 90 % of that load: calls of the 99 others lost", bench: "BenchmarkOverload/clients", unit: "light-lost-%", bar: figure(5), goal: figure(1)},
}
