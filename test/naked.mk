# The naked test and its longer forms; included by the Makefile.
DURATION ?= 5m
SEED     ?= 0
CUTS     ?= 1000
HOURS    ?= 100
FUZZTIME ?= 1m

.PHONY: naked
naked: | need-go need-gcc ## kill, stop, starve, cut off for DURATION=10m, then check; SEED=… repeats a night
	@$(GO) run ./test/naked/cmd -duration $(DURATION) -seed $(SEED) $(NAKED)

.PHONY: soak
soak: | need-go need-gcc ## the long form: DURATION=8h of the naked test, then sizes and slopes
	@$(GO) run ./test/soak -duration $(DURATION) -seed $(SEED)

.PHONY: powercut
powercut: | need-go need-gcc ## CUTS=10000 power cuts under load on a disk of its own (root)
	$(GO) test -count=1 -timeout 0 -run TestAcceptedSurvivesPowerCuts -v ./test/faults -cuts $(CUTS)

.PHONY: mutation
mutation: | need-go need-gcc ## break the protocol on purpose, one rule at a time: each must fail a test
	NIGHTSHIFT_LONG=1 $(GO) test -count=1 -timeout 0 -v ./test/mutation

.PHONY: fuzz
fuzz: | need-go need-gcc ## FUZZTIME=10m for each fuzzer: SQL, payloads, configuration, descriptor 3, times, cron; what fails is kept in testdata
	@grep -rl --include='*_test.go' '^func Fuzz' ./pkg | while read -r file; do \
	  sed -n 's/^func \(Fuzz[A-Za-z]*\).*/\1/p' "$$file" | while read -r name; do \
	    echo "$$name ($${file%/*})"; \
	    $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) "$${file%/*}" </dev/null || exit 1; \
	  done || exit 1; \
	done

.PHONY: proof
proof: | need-go need-gcc ## all of it in one go (root): kills, stops, power cuts, failpoints, simulation, sequences; one table
	@$(GO) run ./test/proof $(PROOF)

# In its directory: there go test shows the report of a run that passes, too.
.PHONY: simulate
simulate: | need-go need-gcc ## HOURS=2000 of faults in virtual time, on all cores; SEED=… is the first night's
	cd test/sim && GOGC=300 $(GO) test -count=1 -timeout 0 -run 'TestSimulate$$' -hours $(HOURS) -seed $(SEED)
