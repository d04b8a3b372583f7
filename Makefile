# caudal's house. `make` or `make help` lists what it can do.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# What `make bench` runs; narrow it with BENCH=HotKey or BENCHPKGS=./memstore.
BENCH ?= .
BENCHPKGS ?= ./...
BENCHTIME ?= 1s
BENCHCOUNT ?= 3

# How long each fuzz target runs.
FUZZTIME ?= 30s

.PHONY: build
build: ## build bin/caudal, one static file
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/caudal ./cmd/caudal

.PHONY: run
run: build ## build, then serve a demo: an echo upstream behind a gateway
	bin/caudal demo

.PHONY: run-redis
run-redis: build ## the same, two gateways on one Redis: one count for both
	bin/caudal demo --redis

.PHONY: test
test: deps lint ## what must pass before a change goes in
	go test -race -shuffle=on ./...
	@# Under the race detector pools allocate, and what counts allocations is skipped.
	go test -run 'Alloc' ./gateway ./httplimit ./internal/metrics
	@if command -v chromium >/dev/null; then $(MAKE) --no-print-directory test-browser; else echo "no chromium: make test-browser is left out"; fi

.PHONY: test-browser
# -mod=mod: the module follows what caudal itself needs.
test-browser: ## look at the dashboard in headless Chromium
	cd dashboard/browsertest && go test -mod=mod -count=1 -timeout 20m ./...

.PHONY: screenshots
screenshots: ## take the pictures of the dashboard in docs/
	cd dashboard/browsertest && CAUDAL_SCREENSHOTS=$(CURDIR)/docs go test -mod=mod -count=1 -timeout 20m -run Screenshots .

.PHONY: examples
examples: ## test the Go programs in examples/, a module of its own
	cd examples/adapters && go vet ./... && go test -race ./...

.PHONY: deps
deps: ## install the programs that the tests start, where they are missing
	@scripts/install-deps.sh

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, govulncheck
	@scripts/lint.sh

.PHONY: api
api: ## write the listings of what the public packages export, in api/
	go test . -count=1 -run 'APIListing' -update

.PHONY: dist
dist: ## what is released, in dist/: static binaries, checksums, bills of materials
	@scripts/dist.sh

.PHONY: bench
bench: ## run the benchmarks and print them beside their floors
	@mkdir -p bin
	go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count $(BENCHCOUNT) -timeout 60m $(BENCHPKGS) > bin/bench.txt \
		|| { cat bin/bench.txt; exit 1; }
	@go run ./internal/benchreport bin/bench.txt

.PHONY: bench-rivals
bench-rivals: ## measure other rate limiters beside caudal: in memory, on Redis, as services
	cd benchmarks && go run . && go run . -store redis && go run . -store services

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: soak
soak: ## the long forms: millions of keys, minutes of load, long fuzzing
	CAUDAL_SOAK=1 go test -count=1 -timeout 3h ./...
	@scripts/fuzz.sh 5m

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
