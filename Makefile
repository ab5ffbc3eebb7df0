# gregor: make help shows what there is.

GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unversioned)
LDFLAGS := -s -w -X main.version=$(VERSION)
MAX_MB  := 30

# How long "make fuzz" fuzzes each target, and "make soak" kills and restarts; how many lives "make simulate" plays.
FUZZTIME ?= 5m
SOAK     ?= 30m
SEEDS    ?= 2000

# The packages of compat that run the tests of other clients, which "make suites" runs whole.
SUITES   ?= kgosuite kafkago kafkapython sarama

.PHONY: help build run cluster test test-unit test-compat test-deps suites bench fuzz soak simulate lint fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the static binary, bin/gregor
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/gregor ./cmd/gregor
	@mb=$$(( ($$(wc -c <bin/gregor) + 1048575) / 1048576 )); \
	if [ $$mb -gt $(MAX_MB) ]; then echo "bin/gregor has $$mb MiB, more than $(MAX_MB)" >&2; exit 1; fi

run: build ## a broker on 127.0.0.1:9092 with its data under ./data
	exec ./bin/gregor serve --override listeners=PLAINTEXT://127.0.0.1:9092 --override log.dirs=data

cluster: build ## a real ZooKeeper and three brokers on 127.0.0.1:9092 to 9094, until Ctrl-C
	@compat/run/cluster

test: ## all that can run here: lint, unit, fuzz, compat (installs what that needs)
	@compat/run/test

test-unit: ## Go's own tests, with the race detector where there is a C compiler
	@compat/run/test unit

test-compat: ## real clients and tools against the built binary
	@compat/run/test compat

test-deps: ## install what the tests need
	@compat/run/install

suites: build ## the test suites of other clients, whole; SUITES (default all) names packages of compat
	@compat/run/install
	@status=0; for suite in $(SUITES); do \
		(cd compat/$$suite && GREGOR_COMPAT=1 GREGOR_SUITES=whole $(GO) test -count=1 -timeout 0 -v .) || status=1; \
	done; exit $$status

bench: build ## gregor beside Apache Kafka 4.4.0, with ratios
	@compat/run/install
	$(GO) run ./compat/bench $(BENCH)

fuzz: ## every fuzz target for FUZZTIME (default 5m)
	@FUZZTIME=$(FUZZTIME) compat/run/test fuzz

soak: build ## produce while one broker, then three are broken, also amid changes, each for SOAK (default 30m); nothing acknowledged may be lost
	GREGOR_COMPAT=1 GREGOR_SOAK=$(SOAK) $(GO) test -p 1 -count=1 -timeout 0 -v -run TestSoak ./compat/datadir ./compat/cluster ./compat/txn

simulate: ## SEEDS (default 2000) random lives of a cluster on virtual time; one that goes wrong is printed as a command that repeats it
	GREGOR_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 0 -run 'TestClusterSimulation$$|TestSimulation$$' ./broker ./controller

lint: ## gofmt, go vet for three platforms, and our own rules
	@compat/run/test lint

fmt: ## gofmt all
	gofmt -w $$(git ls-files '*.go')

clean: ## remove what was built and installed here
	rm -rf bin .cache
