package fetchdata

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"nightshift/pkg/handler"
)

// Limits of one page.
const (
	maxRedirects   = 10
	maxHeaderBytes = 256 << 10
	// maxWaits is how often a server may ask for patience over one page before the
	// slot is given back.
	maxWaits = 20
	// stopLook is how often a request in flight asks whether it is still wanted:
	// a cancel takes effect within a second (DESIGN §3).
	stopLook = time.Second
)

// client asks for one page at a time.
type client struct {
	options   Options
	secrets   *secrets
	task      *handler.Task
	origin    *url.URL
	limit     int64 // bytes of a page
	http      http.Client
	transport *http.Transport
	now       func() time.Time
}

// newClient makes the connection's means for one execution.
func newClient(o Options, s *secrets, p *Payload, t *handler.Task, now func() time.Time) (*client, error) {
	switch {
	case !o.allows(p.url):
		return nil, handler.Fatal(fmt.Errorf("payload.url: %s is not among the configured hosts (%s)", p.url.Host, strings.Join(o.Hosts, ", ")))
	case o.hasSecrets() && p.url.Scheme == "http" && !loopback(p.url.Hostname()) && !o.AllowHTTP:
		return nil, handler.Fatal(fmt.Errorf("payload.url: the configured secrets would go to %s in the clear: use https, or set allow_http", p.url.Host))
	}
	c := &client{options: o, secrets: s, task: t, origin: p.url, limit: o.MaxPageBytes, now: now}
	if p.MaxPageBytes > 0 {
		c.limit = min(c.limit, p.MaxPageBytes)
	}
	roots, err := authorities(o.CAFile)
	if err != nil {
		return nil, handler.Retryable(err)
	}
	c.transport = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: o.ConnectTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    o.ConnectTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true, // we decompress, and count what comes out
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        time.Minute,
	}
	c.http = http.Client{
		Transport:     &guard{base: c.transport, origin: p.url, secrets: s, userAgent: o.UserAgent},
		CheckRedirect: c.redirect,
	}
	return c, nil
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// authorities are the system's, and those of the configured file.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // nil: the system's
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("options.ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("options.ca_file: %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

func loopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// redirect is asked before each redirect is followed.
func (c *client) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= maxRedirects:
		return &refusal{fmt.Sprintf("more than %d redirects", maxRedirects)}
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return &refusal{fmt.Sprintf("a redirect to scheme %q is not followed", req.URL.Scheme)}
	case via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme == "http":
		return &refusal{fmt.Sprintf("a redirect from https to http (%s) is not followed", req.URL.Host)}
	case !c.options.allows(req.URL):
		return &refusal{fmt.Sprintf("a redirect leads to %s, which is not among the configured hosts", req.URL.Host)}
	}
	req.URL.User = nil
	return nil
}

// trouble is why one try brought no page.
type trouble struct {
	err   error
	fatal bool
	asked bool          // the server said when to come back
	after time.Duration // if asked
}

func (t *trouble) Error() string { return t.err.Error() }
func (t *trouble) Unwrap() error { return t.err }

func fatally(format string, args ...any) error {
	return &trouble{err: fmt.Errorf(format, args...), fatal: true}
}

// get asks for u until there is a page, a stop, or enough tries.
func (c *client) get(ctx context.Context, u *url.URL) (*answer, error) {
	tries, waits, delay := 1, 0, c.options.TryDelay
	for {
		a, err := c.once(ctx, u)
		if err == nil {
			return a, nil
		}
		var t *trouble
		if !errors.As(err, &t) {
			return nil, err // a stop, or the execution's end
		}
		err = fmt.Errorf("GET %s: %w", bare(u), t.err)
		var pause time.Duration
		switch {
		case t.fatal:
			return nil, handler.Fatal(err)
		case t.asked && t.after <= c.options.MaxWait && waits < maxWaits:
			waits++
			pause = max(t.after, c.options.TryDelay)
		case t.asked:
			return nil, handler.RetryAfter(err, t.after)
		case tries >= c.options.Tries:
			return nil, handler.Retryable(fmt.Errorf("%w (%d tries)", err, tries))
		default:
			tries++
			// A little uneven, so that tasks that were cut off together do not come back together.
			pause = delay + rand.N(delay/4+1)
			delay *= 3
		}
		logTo(c.task.Log, c.secrets, c.now(), "%v; next try in %s", err, pause.Round(time.Millisecond))
		if err := c.pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// pause waits, and looks up each second whether the task is still wanted.
func (c *client) pause(ctx context.Context, d time.Duration) error {
	until := time.NewTimer(d)
	defer until.Stop()
	look := time.NewTicker(stopLook)
	defer look.Stop()
	for {
		select {
		case <-until.C:
			return nil
		case <-look.C:
			if err := c.task.StillMine(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return c.ended(ctx)
		}
	}
}

// ended says why the execution's context is over: by a person's wish, or by the
// clock.
func (c *client) ended(ctx context.Context) error {
	if err := c.task.StillMine(context.WithoutCancel(ctx)); handler.IsStop(err) {
		return err
	}
	return context.Cause(ctx)
}

var (
	errPageTimeout = errors.New("the page took too long")
	errStall       = errors.New("the answer stalled")
)

// once is one request. While it is in flight, three watchers may end it: the
// page's time, the silence within the body, and the task's own stop.
func (c *client) once(parent context.Context, u *url.URL) (*answer, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	over := time.AfterFunc(c.options.PageTimeout, func() {
		cancel(fmt.Errorf("%w (%s)", errPageTimeout, c.options.PageTimeout))
	})
	defer over.Stop()
	unwatch := c.watch(ctx, cancel)
	defer unwatch()

	a, err := c.exchange(ctx, cancel, u)
	if err == nil {
		return a, nil
	}
	if parent.Err() != nil {
		return nil, c.ended(parent)
	}
	if cause := context.Cause(ctx); handler.IsStop(cause) {
		return nil, cause
	} else if cause != nil {
		return nil, &trouble{err: cause}
	}
	return nil, err
}

// watch ends the request when the task is no longer wanted. The returned
// function waits for its goroutine.
func (c *client) watch(ctx context.Context, cancel context.CancelCauseFunc) func() {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		look := time.NewTicker(stopLook)
		defer look.Stop()
		for {
			select {
			case <-stop:
				return
			case <-look.C:
				if err := c.task.StillMine(ctx); err != nil {
					cancel(err)
					return
				}
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

func (c *client) exchange(ctx context.Context, cancel context.CancelCauseFunc, u *url.URL) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fatally("the address can't be asked for")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, connectionTrouble(err)
	}
	body := &patient{r: resp.Body, cancel: cancel, limit: c.options.StallTimeout}
	body.start()
	defer body.stop()
	defer resp.Body.Close() // the body was read; its end says nothing new
	if err := c.judge(resp, body); err != nil {
		return nil, err
	}
	a := &answer{
		links: resp.Header.Values("Link"), url: c.secrets.without(resp.Request.URL),
		empty: resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusResetContent,
		mayVisit: func(u *url.URL) bool {
			return len(c.options.Hosts) > 0 && c.options.allows(u)
		},
	}
	if a.empty {
		return a, nil
	}
	if a.body, err = c.readBody(resp, body); err != nil {
		return nil, err
	}
	a.body = bytes.TrimPrefix(a.body, []byte("\xef\xbb\xbf"))
	if !json.Valid(a.body) {
		// A connection cut with nobody noticing, a length that lies, a proxy's error
		// page: worth another try.
		return nil, &trouble{err: fmt.Errorf("the page is no whole JSON document (%d bytes, %s)", len(a.body), mediaType(resp))}
	}
	return a, nil
}

// connectionTrouble unwraps net/http's error, which repeats the whole address.
func connectionTrouble(err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return &trouble{err: r, fatal: true}
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &trouble{err: err}
}

// patient ends the request when its body is silent for too long. A slow reader
// on our side does not count: the clock runs while a Read waits.
type patient struct {
	r      io.Reader
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer
}

func (p *patient) start() {
	p.timer = time.AfterFunc(p.limit, func() { p.cancel(fmt.Errorf("%w (%s without a byte)", errStall, p.limit)) })
}

func (p *patient) stop() { p.timer.Stop() }

// Read reads from the wire.
func (p *patient) Read(b []byte) (int, error) {
	p.timer.Reset(p.limit)
	n, err := p.r.Read(b)
	p.timer.Stop()
	return n, err
}
