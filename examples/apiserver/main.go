// Command apiserver is a paged HTTP API to practise fetch_data on. It can be told
// to fail, to stall, to cut connections and to lie about lengths:
//
//	go run ./examples/apiserver -items 5000 -fail 0.05 -cut 2000 -cut-every 7
//	nightshift add fetch_data --payload '{"url":"http://127.0.0.1:8089/items","id":"id"}'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"nightshift/examples/apiserver/paged"
)

func main() {
	var cfg paged.Config
	f := &cfg.Faults
	addr := flag.String("addr", "127.0.0.1:8089", "`address` to listen on; port 0 takes a free one")
	tokenFile := flag.String("token-file", "", "`file` with the token that clients must send")
	flag.Uint64Var(&cfg.Seed, "seed", 1, "the items and the faults are made from it")
	flag.IntVar(&cfg.Items, "items", 1000, "how many items there are")
	flag.IntVar(&cfg.PageSize, "page-size", 100, "items of a page, unless ?limit= says otherwise")
	flag.BoolVar(&cfg.Gzip, "gzip", false, "compress the answers")
	flag.IntVar(&cfg.Churn, "churn", 0, "each `n`-th request the data change between two pages")
	flag.Float64Var(&f.FailRate, "fail", 0, "this `part` of the requests fails with 503")
	flag.Int64Var(&f.FailEvery, "fail-every", 0, "each `n`-th request fails")
	flag.IntVar(&f.FailStatus, "status", 0, "failures have this `status` instead of 503")
	flag.Int64Var(&f.LimitEvery, "limit-every", 0, "each `n`-th request gets 429")
	flag.DurationVar(&f.RetryAfter, "retry-after", 0, "what a failure asks the client to wait")
	flag.DurationVar(&f.Stall, "stall", 0, "how long an answer stops in the middle")
	flag.Int64Var(&f.StallEvery, "stall-every", 0, "only each `n`-th does")
	flag.Int64Var(&f.CutAt, "cut", 0, "connections are cut after so many `bytes` of the body")
	flag.Int64Var(&f.CutEvery, "cut-every", 0, "only each `n`-th is")
	flag.Int64Var(&f.WrongBy, "length", 0, "Content-Length is wrong by so many `bytes`")
	flag.Int64Var(&f.WrongEvery, "length-every", 0, "only each `n`-th is")
	flag.Parse()
	if err := run(*addr, *tokenFile, cfg); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run(addr, tokenFile string, cfg paged.Config) error {
	if tokenFile != "" {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return err
		}
		cfg.Token = strings.TrimSpace(string(b))
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/items has %d items, seed %d\n", listener.Addr(), cfg.Items, cfg.Seed)
	server := &http.Server{Handler: paged.New(cfg), ReadHeaderTimeout: 10 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() }) // it only stops practice
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
