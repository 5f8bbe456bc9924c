package renderreport

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browser drives a headless chromium over its debugging pipe: descriptor 3 takes
// commands, 4 gives answers and events, each a JSON document that ends in a NUL.
type browser struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      *os.File
	pipe    *os.File
	out     *bufio.Reader
	session string
	next    int
	trouble []string // console messages, exceptions, violated policies
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// openBrowser starts chromium, or skips the test and says why.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on this machine (Debian: apt-get install chromium)")
	}
	toBrowser, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	theirs, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, in: ours, pipe: theirs, out: bufio.NewReaderSize(theirs, 1<<20)}
	// --no-sandbox: tests run as root in containers; the page is our own.
	b.cmd = exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir="+t.TempDir(), "about:blank")
	b.cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{toBrowser, fromBrowser} {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(b.close)
	b.attach()
	return b
}

func (b *browser) close() {
	_ = b.in.Close() // it ends when the pipe does
	ended := make(chan struct{})
	go func() {
		_ = b.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
	}
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) // helpers that are left
	<-ended
	_ = b.pipe.Close()
}

// attach opens a page and listens to what goes wrong in it.
func (b *browser) attach() {
	b.t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct {
		SessionID string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
}

// call sends one command and waits for its answer; events on the way are noted.
func (b *browser) call(method string, params any, into any) {
	b.t.Helper()
	b.next++
	command := map[string]any{"id": b.next, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	raw, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(raw, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.receive()
		if m.ID != b.next {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if into != nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

func (b *browser) receive() message {
	b.t.Helper()
	if err := b.pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		b.t.Fatal(err)
	}
	raw, err := b.out.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("the browser does not answer: %v", err)
	}
	var m message
	if err := json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &m); err != nil {
		b.t.Fatal(err)
	}
	switch m.Method {
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		b.trouble = append(b.trouble, m.Method+" "+string(m.Params))
	}
	return m
}

// show loads a page as a window of this width, in this colour scheme or medium.
func (b *browser) show(path string, width int, scheme, medium string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": medium, "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	deadline := time.Now().Add(time.Minute)
	for b.evaluate("document.readyState + ' ' + location.href") != fmt.Sprintf("%q", "complete file://"+path) {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s does not load", path)
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
}

func (b *browser) evaluate(expression string) string {
	b.t.Helper()
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &got)
	if got.Exception != nil {
		b.t.Fatalf("%s: %s", expression, got.Exception)
	}
	return string(got.Result.Value)
}

// screenshot saves the whole page as a picture.
func (b *browser) screenshot(path string) {
	b.t.Helper()
	var got struct {
		Data string `json:"data"`
	}
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &got)
	png, err := base64.StdEncoding.DecodeString(got.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// overflowing lists what sticks out of the page on the right, or out of its own
// box, and texts that lie over one another.
const overflowing = `(() => {
  const bad = [], width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) bad.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  const name = e => e.tagName + '.' + e.getAttribute('class') + ' "' + e.textContent.trim().slice(0, 30) + '"';
  const leaves = [];
  for (const e of document.body.querySelectorAll('*')) {
    if (e.closest('svg') || getComputedStyle(e).clipPath !== 'none' || e.closest('thead') && getComputedStyle(e.closest('thead')).position === 'absolute') continue;
    const r = e.getBoundingClientRect();
    if (r.width === 0 || r.height === 0) continue;
    if (r.right > width + 0.5 || r.left < -0.5) bad.push(name(e) + ' reaches from ' + r.left + ' to ' + r.right);
    if (e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1) bad.push(name(e) + ' holds ' + e.scrollWidth + ' in ' + e.clientWidth);
    if (e.tagName === 'TH' && r.height > 60) bad.push(name(e) + ' is broken into letters');
    if (e.children.length === 0 && e.textContent.trim()) leaves.push(e);
  }
  // Line by line: the boxes of wrapped inline text may meet, its lines must not.
  const lines = leaves.flatMap(e => [...e.getClientRects()].map(r => [e, r])).sort((a, b) => a[1].top - b[1].top);
  for (let i = 0; i < lines.length; i++) for (let j = i + 1; j < lines.length && lines[j][1].top < lines[i][1].bottom - 3; j++) {
    const [a, p] = lines[i], [b, q] = lines[j];
    if (a !== b && Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - q.top > 3) bad.push(name(a) + ' lies over ' + name(b));
  }
  return bad.slice(0, 10).join('\n');
})()`

// contrasts lists texts that are hard to read on what is behind them (WCAG AA).
const contrasts = `(() => {
  const parse = c => c.match(/[\d.]+/g).map(Number);
  const lum = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const bad = new Set();
  for (const e of document.body.querySelectorAll('*')) {
    if (e.closest('svg') || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    let behind = e, bg = parse(getComputedStyle(e).backgroundColor);
    while (bg.length > 3 && bg[3] === 0 && behind.parentElement) { behind = behind.parentElement; bg = parse(getComputedStyle(behind).backgroundColor); }
    const a = lum(parse(getComputedStyle(e).color).slice(0, 3)), b = lum(bg.slice(0, 3));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.add(e.tagName + '.' + e.getAttribute('class') + ' ' + ratio.toFixed(2));
  }
  return [...bad].slice(0, 10).join('\n');
})()`

// windows are how each night is looked at.
var windows = map[string][]struct {
	width int
	looks []string
}{
	"busy":  {{320, []string{"light"}}, {390, []string{"light", "dark"}}, {820, []string{"light"}}, {1121, []string{"light"}}, {1280, []string{"light", "dark", "print"}}},
	"quiet": {{390, []string{"dark"}}, {1280, []string{"light"}}},
	"empty": {{390, []string{"light"}}, {1280, []string{"dark"}}},
	"heavy": {{320, []string{"dark"}}, {1280, []string{"light"}}},
}

// TestInABrowser opens each kind of night on a phone and on a desk, by day and by
// night, and on paper. NIGHTSHIFT_SCREENSHOTS names a directory that keeps the
// pictures.
func TestInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a browser for some seconds")
	}
	b := openBrowser(t)
	shots := os.Getenv("NIGHTSHIFT_SCREENSHOTS")
	dir := t.TempDir()
	for name, f := range map[string]*Facts{"busy": busyNight(), "quiet": quietNight(), "empty": emptyNight(), "heavy": heavyNight()} {
		path := filepath.Join(dir, name+".html")
		var page bytes.Buffer
		if err := Render(&page, f, "Shift report", shanghai); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, w := range windows[name] {
			for _, look := range w.looks {
				width := w.width
				t.Run(fmt.Sprintf("%s/%d/%s", name, width, look), func(t *testing.T) {
					b.t = t
					b.trouble = nil
					scheme, medium := look, "screen"
					if look == "print" {
						scheme, medium = "dark", "print" // who works in the dark prints, too
					}
					b.show(path, width, scheme, medium)
					for what, script := range map[string]string{"sticks out": overflowing, "is hard to read": contrasts} {
						if got := unquote(t, b.evaluate(script)); got != "" {
							t.Errorf("%s:\n%s", what, got)
						}
					}
					if len(b.trouble) > 0 {
						t.Errorf("the console says:\n%s", strings.Join(b.trouble, "\n"))
					}
					if shots != "" {
						b.screenshot(filepath.Join(shots, fmt.Sprintf("%s-%d-%s.png", name, width, look)))
					}
				})
			}
		}
	}
	b.t = t
}

func unquote(t *testing.T, raw string) string {
	t.Helper()
	var s string
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		t.Fatal(err)
	}
	return s
}
