// Command peers measures other job queues the same way as ours, each with its best
// documented settings and with its defaults, and prints them side by side.
// docs/performance.md says how.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

// run is one run over all queues.
type run struct {
	dir    string
	n      int
	rounds int
	idle   bool
	stderr *os.File
	redis  *server
	pg     *server
	rows   []*row
	notes  []string
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "worker" {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	r := &run{}
	dir := flag.String("dir", "/var/tmp", "where to work: a directory on the disk that is to be measured")
	jsonFile := flag.String("json", "", "write the figures to this file too")
	only := flag.String("only", "", "regular expression of the rows to measure")
	flag.IntVar(&r.n, "n", 20000, "jobs of a drain (slow settings: a fraction)")
	flag.IntVar(&r.rounds, "rounds", 3, "how often everything is measured, in turns; the median counts")
	flag.BoolVar(&r.idle, "idle", true, "measure the cost of idling too (30 s)")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err == nil {
		err = r.all(*dir, pattern)
	}
	if err == nil && *jsonFile != "" {
		err = r.write(*jsonFile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func (r *run) all(dir string, pattern *regexp.Regexp) (err error) {
	if r.dir, err = os.MkdirTemp(dir, "nightshift-peers-"); err != nil {
		return err
	}
	if r.stderr, err = os.Create(r.dir + "/stderr"); err != nil {
		return err
	}
	defer r.clear()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		r.clear()
		os.Exit(130)
	}()
	if r.redis, err = startRedis(r.dir); err != nil {
		r.notes = append(r.notes, "asynq left out: "+err.Error())
	}
	if r.pg, err = startPostgres(r.dir); err != nil {
		r.notes = append(r.notes, "River on PostgreSQL left out: "+err.Error())
	}
	for _, e := range r.plan() {
		if pattern.MatchString(e.name) {
			r.rows = append(r.rows, e)
		}
	}
	for round := range r.rounds {
		for _, e := range r.rows {
			fmt.Fprintf(os.Stderr, "peers: round %d, %s\n", round+1, e.name)
			r.measure(e)
		}
	}
	if r.idle {
		r.idles()
	}
	r.spoolers()
	r.print(os.Stdout)
	return nil
}

func (r *run) clear() {
	r.redis.stop()
	r.pg.stop()
	if err := os.RemoveAll(r.dir); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
	}
}
