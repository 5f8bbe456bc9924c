package operator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReportIsOnePage(t *testing.T) {
	n := newNight(t)
	n.work()
	d, out, _ := n.desk(0, 0)
	if err := d.ShiftReport(t.Context(), ReportOptions{Title: "The night", Since: "24h"}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if !strings.HasPrefix(strings.ToLower(page), "<!doctype html>") || !strings.Contains(page, "The night") || !strings.Contains(page, "</html>") {
		t.Errorf("no page: %.300s", page)
	}
	for _, secret := range []string{"b.csv", "s3cr3t"} {
		if strings.Contains(page, secret) {
			t.Errorf("SE-04: %q is in the report", secret)
		}
	}
	file := filepath.Join(t.TempDir(), "night.html")
	out.Reset()
	if err := d.ShiftReport(t.Context(), ReportOptions{Title: "The night", Since: "24h", Output: file}); err != nil || !strings.HasPrefix(out.String(), file+"  (") {
		t.Fatalf("%v, %q", err, out.String())
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "The night") {
		t.Errorf("%v", err)
	}
}

// What was there stays when a report can't be made.
func TestReportThatFailsLeavesTheOldOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "night.html")
	broken := errors.New("broken")
	for _, old := range []string{"", "the old one"} {
		if old != "" {
			if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, err := openOutput(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := finishOutput(f, nil, broken); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		text, err := os.ReadFile(file)
		if string(text) != old || (err == nil) != (old != "") {
			t.Errorf("%q is left, %v", text, err)
		}
	}
}
