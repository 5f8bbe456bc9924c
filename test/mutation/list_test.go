package mutation

// mutations are the deliberate faults. Each breaks one rule of docs/reliability.md
// or of the protocol behind it.
var mutations = []mutation{
	{
		name: "a checkpoint does not ask for its execution's number",
		edits: []edit{
			{"pkg/store/checkpoint.go", " AND exec_id = ?3", " AND (exec_id = ?3 OR TRUE)"},
			{"pkg/store/finish.go", "WHERE task_id = ?1 AND executor_id = ?2 AND exec_id = ?3`)\n\nvar sqlWorkerBack", "WHERE task_id = ?1 AND executor_id = ?2 AND (exec_id = ?3 OR TRUE)`)\n\nvar sqlWorkerBack"},
		},
		pkg: "./pkg/store", run: "TestRecoverResumesFromTheCheckpoint|TestStoreAgainstModel",
	},
	{
		name: "a result does not ask for its execution's number",
		edits: []edit{
			{"pkg/store/finish.go", " AND exec_id = ?3", " AND (exec_id = ?3 OR TRUE)"},
			{"pkg/store/finish.go", " AND exec_id = column3", " AND column3 IS NOT NULL"},
		},
		pkg: "./pkg/store", run: "TestRecoverResumesFromTheCheckpoint|TestTurnTellsEachItsOwn|TestStoreAgainstModel",
	},
	{
		name:  "an expired lease allows a takeover",
		edits: []edit{{"pkg/scheduler/warden.go", "\tcase proof == Free:\n", "\tcase proof == Free || !o.LeaseUntil.IsZero() && o.LeaseUntil.Before(now):\n"}},
		pkg:   "./pkg/scheduler", run: "TestAnExpiredLeaseAllowsOnlyAKill",
	},
	{
		name:  "silence allows a takeover",
		edits: []edit{{"pkg/scheduler/warden.go", "\t\tw.offline(o, s, now)\n", "\t\tw.dead(o, s, now, set, proven)\n"}},
		pkg:   "./pkg/scheduler", run: "TestSilenceAloneNeverTakesOver",
	},
	{
		name:  "a takeover does not wait for what the dead left behind",
		edits: []edit{{"pkg/scheduler/warden.go", "\tif how != reboot {\n\t\tif left", "\tif how == reboot {\n\t\tif left"}},
		pkg:   "./pkg/scheduler", run: "TestLeftoversThatDoNotEndKeepTheTasksWaiting",
	},
	{
		name:  "a worker that comes back at once finds its tasks taken",
		edits: []edit{{"pkg/scheduler/warden.go", "\tcomeBackGrace = time.Second\n", "\tcomeBackGrace = 0\n"}},
		pkg:   "./pkg/scheduler", run: "TestAFreeLockIsTakenOverAfterASecondWithTheLockInHand|TestAWorkerThatComesBackKeepsItsTasks",
	},
	{
		name:  "programs do not inherit the slot lock",
		edits: []edit{{"pkg/handler/program/reaper.go", "\tif r.opt.Lock != nil {\n\t\tfiles", "\tif r.opt.Lock != nil && r.opt.Mark == \"\" {\n\t\tfiles"}},
		pkg:   "./pkg/handler/program", run: "TestDescriptorsAndSession",
	},
	{
		name:  "programs outlive their worker",
		edits: []edit{{"pkg/handler/program/spawn_linux.go", "Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: pidfd", "Setsid: true, PidFD: pidfd"}},
		pkg:   "./pkg/handler/program", run: "TestProgramOutlivesThreadsAndDiesWithItsWorker",
	},
	{
		name:  "a program that failed is over while its children live",
		edits: []edit{{"pkg/handler/program/ladder.go", "\tif again || x.order != nil {\n\t\tx.clear()", "\tif x.order != nil {\n\t\tx.clear()"}},
		pkg:   "./pkg/handler/program", run: "TestNothingOfAFailedProgramIsAlive",
	},
	{
		name: "commits are synced at checkpoints only (synchronous NORMAL)",
		edits: []edit{
			{"pkg/store/open.go", `{"synchronous", "FULL", "2"}`, `{"synchronous", "NORMAL", "1"}`},
			{"pkg/store/conn.go", `q.Set("_synchronous", "FULL")`, `q.Set("_synchronous", "NORMAL")`},
		},
		pkg: "./pkg/store", run: "TestP01SynchronousIsFull",
	},
	{
		name:  "a task put down by a drain is charged with its worker's crash",
		edits: []edit{{"pkg/store/recover.go", "return !t.LeaseUntil.IsZero()", "return true"}},
		pkg:   "./pkg/store", run: "TestRecoverCountsCrashes",
	},
	{
		name:  "write transactions are deferred",
		edits: []edit{{"pkg/store/writer.go", "define(`BEGIN IMMEDIATE`)", "define(`BEGIN`)"}},
		pkg:   "./pkg/store", run: "TestP04TransactionsAreImmediate",
	},
	{
		name:  "an I/O error at COMMIT counts as success",
		edits: []edit{{"pkg/store/writer.go", "\t\treturn unknown{w.rolledBack(err)}\n\t}\n\tw.commits", "\t\t_ = w.rolledBack(err)\n\t}\n\tw.commits"}},
		pkg:   "./pkg/store", run: "TestP18GhostCommit",
	},
	{
		name:  "a cancel that comes during a failure is forgotten",
		edits: []edit{{"pkg/store/finish.go", "if control.Cancels() && verdict != Succeed && verdict != Fail {", "if control.Cancels() && verdict == Pause {"}},
		pkg:   "./pkg/store", run: "TestCA05CancelMeetsTheEnd|TestStoreAgainstModel",
	},
	{
		name:  "crashes are not counted",
		edits: []edit{{"pkg/store/recover.go", "\tif crashed {\n\t\tt.CrashCount++\n\t}\n\tv.out.Resume", "\tv.out.Resume"}},
		pkg:   "./pkg/store", run: "TestCR07PoisonPill|TestRecoverCountsCrashes",
	},
	{
		name:  "progress does not forgive crashes",
		edits: []edit{{"pkg/store/checkpoint.go", "crash_count = CASE WHEN checkpoint IS ?4 THEN crash_count ELSE 0 END", "crash_count = CASE WHEN checkpoint IS ?4 THEN crash_count ELSE crash_count END"}},
		pkg:   "./pkg/store", run: "TestRecoverCountsCrashes|TestStoreAgainstModel",
	},
	{
		name:  "a failure costs two retries",
		edits: []edit{{"pkg/store/finish.go", "retry_count = retry_count + 1, next_run_time = ?5", "retry_count = retry_count + 2, next_run_time = ?5"}},
		pkg:   "./pkg/store", run: "TestStoreAgainstModel|TestRecoverExpiredLeases",
	},
	{
		name:  "a reboot is a crash",
		edits: []edit{{"pkg/store/recover.go", "return v.r.Graceful || known && (!h.StoppedAt.IsZero() || h.BootID != \"\" && v.r.BootID != \"\" && h.BootID != v.r.BootID)", "return v.r.Graceful || known && !h.StoppedAt.IsZero()"}},
		pkg:   "./pkg/store", run: "TestRecoverCountsCrashes",
	},
	{
		name:  "a takeover does not look whether the worker is back",
		edits: []edit{{"pkg/store/takeover.go", "\t\tif id == r.Worker && later {", "\t\tif id == r.Worker && later && id == \"\" {"}},
		pkg:   "./pkg/store", run: "TestTakeOver",
	},
	{
		name:  "retries stamped under a wrong clock stay",
		edits: []edit{{"pkg/store/takeover.go", "\t\t\t\tif !t.NextRun.After(st.at.Add(b.Limit())) {", "\t\t\t\tif b.Limit() >= 0 {"}},
		pkg:   "./pkg/store", run: "TestTI09RetriesOfAWrongClock",
	},
	{
		name:  "a worker claims before it recovers what is its own",
		edits: []edit{{"pkg/worker/start.go", "Worker: p.id, Executors: p.slots, BootID", "Worker: p.id + \"x\", Executors: p.slots, BootID"}},
		pkg:   "./test/cases", run: "TestCR02PowerButton|TestCR01DeadOwner",
	},
	{
		name:  "the triggers let a waiting task succeed",
		edits: []edit{{"schema.sql", "    (OLD.status = 'PENDING' AND NEW.status = 'RUNNING' AND NEW.reason = 'claimed')", "    (OLD.status = 'PENDING' AND NEW.status IN ('RUNNING', 'SUCCESS') AND NEW.reason IN ('claimed', 'done'))"}},
		pkg:   "./pkg/store", run: "TestIN13StateMachineOfDriver",
	},
	{
		name:  "an execution that has lost its task goes on",
		edits: []edit{{"pkg/executor/recorder.go", "\t\tx.Order(handler.ErrLost, true)\n\t\treturn x.tell(handler.ErrLost)", "\t\treturn nil"}},
		pkg:   "./pkg/executor", run: "TestAForeignFenceStopsEverythingAndWritesNothing",
	},
	{
		name:  "two workers have one lock",
		edits: []edit{{"pkg/liveness/lock.go", "if err := flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {\n\t\t\tl.file.Close()", "if err := flock(fd, unix.LOCK_SH|unix.LOCK_NB); err != nil {\n\t\t\tl.file.Close()"}},
		pkg:   "./pkg/liveness", run: "TestAcquireExcludesTheSecondAndNamesTheFirst",
	},
	{
		name: "any lock file of that name is proof",
		edits: []edit{
			{"pkg/liveness/lock.go", "\tif d != dev || i != ino {\n\t\tg.Close()\n\t\treturn Proof{Outcome: Unproven, Why: \"the lock file is another one", "\tif d != dev && i != ino {\n\t\tg.Close()\n\t\treturn Proof{Outcome: Unproven, Why: \"the lock file is another one"},
			{"pkg/liveness/lock.go", "d, i, err := inodeOf(path); err != nil || d != dev || i != ino {\n\t\tg.Close()\n\t\treturn Proof{Outcome: Unproven, Why: \"the lock file was unlinked", "_, _, err := inodeOf(path); err != nil {\n\t\tg.Close()\n\t\treturn Proof{Outcome: Unproven, Why: \"the lock file was unlinked"},
		},
		pkg: "./pkg/liveness", run: "TestProbe",
	},
	{
		name:  "a reused pid is killed for another",
		edits: []edit{{"pkg/liveness/process_linux.go", "\tif now.StartTicks != p.StartTicks {\n\t\treturn ErrGone", "\tif now.StartTicks == 0 {\n\t\treturn ErrGone"}},
		pkg:   "./pkg/liveness", run: "TestKillMeetsOnlyTheProcessMeant",
	},
}
