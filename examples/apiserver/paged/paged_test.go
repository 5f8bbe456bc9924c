package paged

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type answer struct {
	Items []struct {
		ID json.Number `json:"id"`
	} `json:"items"`
	Next   *string `json:"next"`
	Cursor *string `json:"next_cursor"`
	Token  *string `json:"next_token"`
	More   bool    `json:"has_more"`
}

func get(t *testing.T, url string) (int, []byte, http.Header) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body, resp.Header
}

func start(t *testing.T, cfg Config) string {
	t.Helper()
	s := httptest.NewServer(New(cfg))
	t.Cleanup(s.Close)
	return s.URL + "/items"
}

// TestEveryWayGivesEveryItem follows each way of paging to its end.
func TestEveryWayGivesEveryItem(t *testing.T) {
	for name, next := range map[string]func(a answer, base string) string{
		"next":   func(a answer, _ string) string { return *a.Next },
		"cursor": func(a answer, base string) string { return base + "?cursor=" + *a.Cursor },
		"token":  func(a answer, base string) string { return base + "?token=" + *a.Token },
	} {
		base := start(t, Config{Seed: 1, Items: 57, PageSize: 10})
		seen := map[string]bool{}
		for url := base; url != ""; {
			status, body, _ := get(t, url)
			var a answer
			if err := json.Unmarshal(body, &a); err != nil || status != http.StatusOK {
				t.Fatalf("%s: %d, %v", name, status, err)
			}
			for _, i := range a.Items {
				seen[i.ID.String()] = true
			}
			url = ""
			if a.More {
				url = next(a, base)
			}
		}
		if len(seen) != 57 {
			t.Errorf("%s: %d items, wanted 57", name, len(seen))
		}
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	_, one, _ := get(t, start(t, Config{Seed: 7, Items: 50}))
	_, two, _ := get(t, start(t, Config{Seed: 7, Items: 50}))
	_, other, _ := get(t, start(t, Config{Seed: 8, Items: 50}))
	if string(one) != string(two) || string(one) == string(other) {
		t.Error("the items do not depend on the seed alone")
	}
	if !strings.Contains(string(one), "9007199254740993") {
		t.Error("no id needs 64 bits")
	}
}

func TestFaultsOnDemand(t *testing.T) {
	base := start(t, Config{Seed: 1, Items: 50})
	if status, _, _ := get(t, base+"?fail=1"); status != http.StatusServiceUnavailable {
		t.Errorf("fail=1 gives %d", status)
	}
	if status, _, h := get(t, base+"?limit_every=1&retry_after=90s"); status != http.StatusTooManyRequests || h.Get("Retry-After") != "90" {
		t.Errorf("limit_every=1 gives %d, %v", status, h)
	}
	for _, bad := range []string{"fail=x", "fail=2", "cut=x", "stall=x", "status=200", "limit=0", "page=0", "cursor=x", "token=x"} {
		if status, _, _ := get(t, base+"?"+bad); status != http.StatusBadRequest {
			t.Errorf("%s gives %d", bad, status)
		}
	}
	for _, broken := range []string{"cut=20", "length=7"} {
		resp, err := http.Get(base + "?" + broken)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s breaks nothing", broken)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestToken(t *testing.T) {
	base := start(t, Config{Seed: 1, Token: "x"})
	if status, _, _ := get(t, base); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
}
