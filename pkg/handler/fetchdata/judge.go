package fetchdata

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 24 * time.Hour

// judge says by its status whether an answer is a page.
func (c *client) judge(resp *http.Response, body io.Reader) error {
	code := resp.StatusCode
	switch {
	case code == http.StatusPartialContent:
		return fatally("the server answered with a part (206) of what was asked for")
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		t := &trouble{err: c.describe(resp, body)}
		t.after, t.asked = retryAfter(resp, c.now())
		return t
	default:
		return &trouble{err: c.describe(resp, body), fatal: true}
	}
}

// describe is the status, and what the server said to it if that is a short text.
func (c *client) describe(resp *http.Response, body io.Reader) error {
	status := fmt.Sprintf("status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	m := mediaType(resp)
	if m != "text/plain" && !strings.HasSuffix(m, "json") || resp.Header.Get("Content-Encoding") != "" {
		return errors.New(status)
	}
	const most, shown = 16 << 10, 200
	b, err := io.ReadAll(io.LimitReader(body, most))
	if err != nil || len(b) == 0 {
		return errors.New(status) // the status is what counts
	}
	// Hidden before it is shortened: half a secret is one, too.
	text := strings.Join(strings.Fields(c.secrets.redact(string(b))), " ")
	if len(text) > shown {
		text = text[:shown] + "..."
	}
	return fmt.Errorf("%s: %q", status, text)
}

func mediaType(resp *http.Response) string {
	m, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return "no content type"
	}
	return m
}

// retryAfter reads seconds or a date; a date counts from the server's own clock
// if it tells the time.
func retryAfter(resp *http.Response, now time.Time) (time.Duration, bool) {
	v := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if v == "" {
		return 0, false
	}
	if s, err := strconv.ParseInt(v, 10, 64); err == nil {
		if s < 0 {
			return 0, false
		}
		return time.Duration(min(s, int64(maxRetryAfter/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = sent
	}
	return min(max(at.Sub(now), 0), maxRetryAfter), true
}

// readBody reads and unpacks a page, up to the limit: what a compressed body
// becomes counts, not what it says it is.
func (c *client) readBody(resp *http.Response, wire io.Reader) ([]byte, error) {
	tooLarge := fatally("the page is larger than %s: ask for smaller pages, or raise max_page_bytes", size(c.limit))
	if resp.ContentLength > c.limit {
		return nil, tooLarge
	}
	var body io.Reader = wire
	switch enc := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); enc {
	case "", "identity":
	case "gzip", "x-gzip":
		// A stream of empty members would go on for ever without a byte coming out.
		zip, err := gzip.NewReader(io.LimitReader(wire, c.limit+maxHeaderBytes))
		if err != nil {
			return nil, &trouble{err: fmt.Errorf("the body is no gzip: %w", err)}
		}
		body = zip
	default:
		return nil, fatally("the server sent Content-Encoding %q, which was not asked for", shorten(enc))
	}
	b, err := io.ReadAll(io.LimitReader(body, c.limit+1))
	switch {
	case int64(len(b)) > c.limit:
		return nil, tooLarge
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &trouble{err: fmt.Errorf("the body was cut after %d bytes: %w", len(b), err)}
	case err != nil:
		return nil, &trouble{err: fmt.Errorf("read the body: %w", err)}
	}
	return b, nil
}
