# Nightshift: build, test, run. `make help` lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := build

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
GO      ?= go
# Without urfave/cli's own manual pages, and the Markdown parser behind them.
TAGS    := urfave_cli_no_docs
# SQLite: fdatasync instead of fsync (a commit into a recycled WAL then needs no
# journal commit of the file system), and no mutex around each malloc.
export CGO_CFLAGS ?= -O2 -g0 -DHAVE_FDATASYNC=1 -DSQLITE_DEFAULT_MEMSTATUS=0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: need-go need-gcc
need-go:
	@command -v $(GO) >/dev/null 2>&1 || { echo "make: Go is missing. Install Go 1.26 or later (Debian: apt-get install golang-go, or the archive from the Go project) and put it on PATH." >&2; exit 69; }
need-gcc:
	@command -v $${CC:-gcc} >/dev/null 2>&1 || { echo "make: a C compiler is missing; the SQLite driver needs one. Debian, Ubuntu: apt-get install gcc libc6-dev" >&2; exit 69; }

.PHONY: build
build: bin/supervisor bin/worker bin/nightshift ## bin/supervisor, bin/worker and bin/nightshift

GOFILES := $(shell find cmd pkg -name '*.go' 2>/dev/null) schema.go schema.sql go.mod go.sum

bin/supervisor: $(GOFILES) | need-go
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/supervisor

bin/worker: $(GOFILES) | need-go need-gcc
	CGO_ENABLED=1 $(GO) build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $@ ./cmd/worker

bin/nightshift: bin/worker
	ln -sf worker $@

.PHONY: run
run: build ## start two workers on ./data with the example configuration; Ctrl-C ends all
	@for p in sqlite3 python3; do command -v $$p >/dev/null 2>&1 || echo "make: $$p is missing; what follows needs it. Debian, Ubuntu: apt-get install $$p" >&2; done
	@bin/nightshift --config examples/nightshift.yaml db init --if-missing
	@echo "Nightshift runs: two workers, database data/nightshift.db. Ctrl-C ends it."
	@echo "In a second terminal:"
	@echo "  sqlite3 data/nightshift.db \"INSERT INTO tasks(task_type,payload) VALUES('clean_csv','{}')\""
	@echo "  bin/nightshift --config examples/nightshift.yaml status"
	@exec bin/supervisor --workers 2 --run-dir data/run -- bin/worker run --config examples/nightshift.yaml

.PHONY: demo
demo: build ## kill a worker three times under a task and compare the output
	sh scripts/demo.sh

.PHONY: test
test: build ## all tests, with the race detector
	$(GO) test -race -timeout 20m $$($(GO) list ./... | grep -v '^nightshift/test/')
	@# One after the other: each of these has the machine for itself. Always anew: Go
	@# does not see that a result depends on the binaries that the test builds.
	$(GO) test -race -count=1 -p 1 -timeout 20m ./test/...

.PHONY: short
short: ## the quick tests
	$(GO) test -short ./...

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, shellcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt: $$out" >&2; exit 1; }
	$(GO) vet ./...
	staticcheck ./...
	shellcheck $$(git ls-files 'scripts/*' 'examples/*.sh' 'examples/**/*.sh' 'test/**/*.sh' '.ci/run' | while read -r f; do head -n 1 "$$f" | grep -qE '^#!.*(sh|bash)$$' && echo "$$f"; done)

-include deploy/install.mk
-include test/naked.mk
-include bench/bench.mk

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
