# Measures: `make bench` ours beside the machine's limits, `make bench-peers` other
# job queues. BENCH_DIR is a directory on the disk to be measured.
BENCH_DIR ?= /var/tmp

.PHONY: bench bench-quick bench-peers
bench: build ## measure ours beside the limits of disk, SQLite and fork (15 minutes)
	$(GO) build -trimpath -o bin/bench ./bench
	bin/bench --dir $(BENCH_DIR) --json bin/bench.json

bench-quick: build ## the same as a smoke test: figures without weight
	$(GO) build -trimpath -o bin/bench ./bench
	bin/bench --dir $(BENCH_DIR) --quick

bench-peers: build ## measure River, goqite, backlite, asynq and task-spooler the same way
	cd bench/peers && $(GO) build -trimpath -o ../../bin/bench-peers .
	cd bench/peers && ../../bin/bench-peers --dir $(BENCH_DIR) --json ../../bin/bench-peers.json
