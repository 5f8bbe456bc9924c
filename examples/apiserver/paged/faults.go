package paged

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Faults are what a server does wrong. Each can be set for the whole server, and
// for one request by a query parameter of the name that stands behind it.
type Faults struct {
	FailRate   float64       // fail: this part of the requests is answered with 503
	FailEvery  int64         // fail_every: each n-th request is
	FailStatus int           // status: with this instead of 503
	LimitEvery int64         // limit_every: each n-th request is answered with 429
	RetryAfter time.Duration // retry_after: what 429 and 503 ask for
	Stall      time.Duration // stall: silence in the middle of the body
	StallEvery int64         // stall_every: of each n-th request; 0: of each
	CutAt      int64         // cut: the connection is cut after so many bytes of the body
	CutEvery   int64         // cut_every: of each n-th request; 0: of each
	WrongBy    int64         // length: the Content-Length is wrong by so many bytes
	WrongEvery int64         // length_every: of each n-th request; 0: of each
}

// override reads the faults that one request asks for itself.
func (f Faults) override(q url.Values) (Faults, error) {
	var errs []error
	number := func(name string, into *int64) {
		if v := q.Get(name); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s %q: a number", name, v))
			}
			*into = n
		}
	}
	duration := func(name string, into *time.Duration) {
		if v := q.Get(name); v != "" {
			d, err := time.ParseDuration(v)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s %q: a duration such as 5s", name, v))
			}
			*into = d
		}
	}
	if v := q.Get("fail"); v != "" {
		rate, err := strconv.ParseFloat(v, 64)
		if err != nil || rate < 0 || rate > 1 {
			errs = append(errs, fmt.Errorf("fail %q: between 0 and 1", v))
		}
		f.FailRate = rate
	}
	status := int64(f.FailStatus)
	number("fail_every", &f.FailEvery)
	number("status", &status)
	number("limit_every", &f.LimitEvery)
	number("stall_every", &f.StallEvery)
	number("cut", &f.CutAt)
	number("cut_every", &f.CutEvery)
	number("length", &f.WrongBy)
	number("length_every", &f.WrongEvery)
	duration("retry_after", &f.RetryAfter)
	duration("stall", &f.Stall)
	if status != 0 && (status < 400 || status > 599) {
		errs = append(errs, fmt.Errorf("status %d: from 400 to 599", status))
	}
	f.FailStatus = int(status)
	return f, errors.Join(errs...)
}

// nth reports that a fault of "each n-th request" meets this one.
func nth(every, number int64) bool { return every <= 1 || number%every == 0 }

// refuses answers with a failure if it is this request's turn.
func (s *Server) refuses(w http.ResponseWriter, r *http.Request, f Faults, number int64) bool {
	s.mu.Lock()
	fails := f.FailRate > 0 && s.rng.Float64() < f.FailRate
	s.mu.Unlock()
	fails = fails || f.FailEvery > 0 && number%f.FailEvery == 0
	limited := f.LimitEvery > 0 && number%f.LimitEvery == 0
	if !fails && !limited {
		return false
	}
	if f.RetryAfter > 0 {
		seconds := int64((f.RetryAfter + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	switch {
	case limited:
		problem(w, http.StatusTooManyRequests, "slow down")
	case f.FailStatus != 0:
		problem(w, f.FailStatus, "as you wished")
	default:
		problem(w, http.StatusServiceUnavailable, "out of order")
	}
	return true
}

// send writes the body, or what is left of it. A cut and a wrong length can't be
// had from net/http's own writer, so the connection is taken over for them.
func (s *Server) send(w http.ResponseWriter, r *http.Request, body []byte, f Faults, number int64) {
	cut := f.CutAt > 0 && f.CutAt < int64(len(body)) && nth(f.CutEvery, number)
	wrong := f.WrongBy != 0 && nth(f.WrongEvery, number)
	stall := f.Stall > 0 && nth(f.StallEvery, number)
	length := int64(len(body))
	if wrong {
		length = max(0, length+f.WrongBy)
	}
	switch {
	case cut:
		s.raw(w, body[:f.CutAt], length)
	case wrong:
		s.raw(w, body, length)
	case stall:
		w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
		half := len(body) / 2
		if _, err := w.Write(body[:half]); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush() // without it the stall is at the start
		select {
		case <-time.After(f.Stall):
		case <-r.Context().Done():
			return
		}
		_, _ = w.Write(body[half:]) // the client may have given up: that is what it is for
	default:
		w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
		_, _ = w.Write(body)
	}
}

// raw writes an answer by hand and closes the connection.
func (s *Server) raw(w http.ResponseWriter, body []byte, length int64) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		problem(w, http.StatusInternalServerError, "this fault needs HTTP/1.1")
		return
	}
	defer conn.Close()
	var head strings.Builder
	head.WriteString("HTTP/1.1 200 OK\r\n")
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	w.Header().Set("Connection", "close")
	_ = w.Header().Write(&head) // to memory
	head.WriteString("\r\n")
	_, _ = buf.WriteString(head.String()) // a client that is gone gets nothing, which is a cut, too
	_, _ = buf.Write(body)
	_ = buf.Flush()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

func acceptsGzip(r *http.Request) bool {
	for _, e := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		if strings.HasPrefix(strings.TrimSpace(e), "gzip") {
			return true
		}
	}
	return false
}
