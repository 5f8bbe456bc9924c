// Package paged is a small HTTP API to practise on: a list of items made from a
// seed, handed out page by page in every common way of paging, by a server that
// can be told to misbehave.
//
// One answer of /items carries all of it, so that any client finds its way:
//
//	{"items":[…],"next":"http://…","next_cursor":"…","next_token":"…","has_more":true}
//	Link: <http://…>; rel="next"
//
// The position is asked for with one of ?cursor= (the id after which to go on),
// ?token= (opaque, bound to the data's seed) and ?page= (a number: under changing
// data it repeats or skips items, which is what it is here to show), and ?limit=.
//
// The same seed gives the same items, byte for byte, on every machine.
package paged

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
)

// Config is a server's data and its manners.
type Config struct {
	Seed     uint64 // of the items and of the faults
	Items    int    // default 1,000
	PageSize int    // default 100
	Token    string // if set: asked for as "Authorization: Bearer <token>"
	Gzip     bool   // for clients that take it
	Churn    int    // each so many requests an item is added in front, and each second time one is removed
	Faults   Faults
}

// Server answers requests; it is an http.Handler.
type Server struct {
	cfg Config

	mu       sync.Mutex
	items    []Item
	added    int
	requests int64
	rng      *rand.Rand
}

// Item is one record. Its id needs all 64 bits: whoever reads it as a floating
// point number gets another one.
type Item struct {
	ID    int64       `json:"id"`
	Name  string      `json:"name"`
	Price json.Number `json:"price"` // with the digits it was written with: 1.10
	Note  string      `json:"note"`
}

// firstID is 2^53 + 1, the first whole number that a float64 can't hold.
const firstID = 1<<53 + 1

// New makes a server.
func New(cfg Config) *Server {
	if cfg.Items == 0 {
		cfg.Items = 1000
	}
	if cfg.PageSize == 0 {
		cfg.PageSize = 100
	}
	s := &Server{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 2))}
	r := rand.New(rand.NewPCG(cfg.Seed, 1))
	for i := range cfg.Items {
		s.items = append(s.items, newItem(r, firstID+2*int64(i)))
	}
	return s
}

var notes = []string{"", "plain", "tab\tand \"quotes\"", "two\nlines", "表格", "naïve — ☕", "</script>&amp;", "back\\slash"}

func newItem(r *rand.Rand, id int64) Item {
	return Item{
		ID: id, Name: fmt.Sprintf("item-%06x", r.Uint32N(1<<24)),
		Price: json.Number(fmt.Sprintf("%d.%02d", r.IntN(1000), r.IntN(100))), Note: notes[r.IntN(len(notes))],
	}
}

// Requests is how many requests have come so far.
func (s *Server) Requests() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// ServeHTTP answers /items, or does to it what the faults say.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	number := s.requests
	s.mu.Unlock()
	faults, err := s.cfg.Faults.override(r.URL.Query())
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	switch {
	case r.URL.Path != "/items":
		problem(w, http.StatusNotFound, "there is only /items")
		return
	case r.Method != http.MethodGet:
		problem(w, http.StatusMethodNotAllowed, "only GET")
		return
	case s.cfg.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.Token:
		problem(w, http.StatusUnauthorized, "a token is needed")
		return
	}
	if s.refuses(w, r, faults, number) {
		return
	}
	body, link, err := s.page(r)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	if link != "" {
		w.Header().Set("Link", "<"+link+`>; rel="next"`)
	}
	w.Header().Set("Content-Type", "application/json")
	if s.cfg.Gzip && acceptsGzip(r) {
		body = zipped(body)
		w.Header().Set("Content-Encoding", "gzip")
	}
	s.send(w, r, body, faults, number)
}

// page makes the answer to one request, from one view of the data.
func (s *Server) page(r *http.Request) (body []byte, link string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Churn > 0 && s.requests%int64(s.cfg.Churn) == 0 {
		s.churn()
	}
	from, limit, err := s.position(r.URL.Query())
	if err != nil {
		return nil, "", err
	}
	to := min(from+limit, len(s.items))
	answer := struct {
		Items  []Item  `json:"items"`
		Next   *string `json:"next"`
		Cursor *string `json:"next_cursor"`
		Token  *string `json:"next_token"`
		More   bool    `json:"has_more"`
	}{Items: append([]Item{}, s.items[from:to]...), More: to < len(s.items)}
	if answer.More {
		cursor := strconv.FormatInt(s.items[to-1].ID, 10)
		token := s.token(cursor)
		next := nextURL(r, cursor)
		answer.Next, answer.Cursor, answer.Token, link = &next, &cursor, &token, next
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ") // white space between the parts, as many servers send it
	enc.SetEscapeHTML(false)
	if err := enc.Encode(answer); err != nil {
		return nil, "", err
	}
	return b.Bytes(), link, nil
}

// churn adds an item in front, as a feed of news does, and each second time
// removes the fourth.
func (s *Server) churn() {
	s.added++
	r := rand.New(rand.NewPCG(s.cfg.Seed, uint64(1000+s.added)))
	fresh := newItem(r, firstID-2*int64(s.added))
	s.items = append([]Item{fresh}, s.items...)
	if s.added%2 == 0 && len(s.items) > 4 {
		s.items = append(s.items[:4:4], s.items[5:]...)
	}
}

// position finds where the page begins.
func (s *Server) position(q url.Values) (from, limit int, err error) {
	limit = s.cfg.PageSize
	if v := q.Get("limit"); v != "" {
		if limit, err = strconv.Atoi(v); err != nil || limit < 1 || limit > 10_000 {
			return 0, 0, fmt.Errorf("limit %q: a number from 1 to 10000", v)
		}
	}
	cursor := q.Get("cursor")
	if t := q.Get("token"); t != "" {
		if cursor, err = s.readToken(t); err != nil {
			return 0, 0, err
		}
	}
	if v := q.Get("page"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 1_000_000 {
			return 0, 0, fmt.Errorf("page %q: a number from 1", v)
		}
		return min((n-1)*limit, len(s.items)), limit, nil
	}
	if cursor == "" {
		return 0, limit, nil
	}
	id, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("cursor %q: an id", cursor)
	}
	// The ids rise, so that a position survives whatever happens before it.
	for from < len(s.items) && s.items[from].ID <= id {
		from++
	}
	return from, limit, nil
}

func (s *Server) token(cursor string) string {
	return base64.URLEncoding.EncodeToString([]byte(fmt.Sprintf("%d:%s", s.cfg.Seed, cursor)))
}

func (s *Server) readToken(t string) (string, error) {
	b, err := base64.URLEncoding.DecodeString(t)
	want := fmt.Sprintf("%d:", s.cfg.Seed)
	if err != nil || !bytes.HasPrefix(b, []byte(want)) {
		return "", fmt.Errorf("the token is unknown or has expired")
	}
	return string(b[len(want):]), nil
}

// nextURL is the request again, with the next cursor.
func nextURL(r *http.Request, cursor string) string {
	q := r.URL.Query()
	q.Del("page")
	q.Del("token")
	q.Set("cursor", cursor)
	u := url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawQuery: q.Encode()}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u.String()
}

func zipped(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	// Writing to memory can't fail.
	_, _ = w.Write(b)
	_ = w.Close()
	return z.Bytes()
}

func problem(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client may be gone; there is nobody to tell.
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}
