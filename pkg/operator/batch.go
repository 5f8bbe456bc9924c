package operator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"

	"nightshift/pkg/config"
	"nightshift/pkg/operator/screen"
	"nightshift/pkg/store"
	"nightshift/pkg/task"
)

// maxLine bounds a line of a batch: a payload of 1 MiB and the rest.
const maxLine = task.MaxJSONBytes + 64<<10

// AddBatch inserts a task for each line of a JSONL file, or of standard input
// for "-": all of them or none.
//
// The lines are read twice, so that a mistake in the last one is found before
// the first is written, and so that the database is never locked while a slow
// program at the other end of the pipe makes up its next line.
func (d *Desk) AddBatch(name string, quiet bool) error {
	lines, total, err := d.checkBatch(name)
	if err != nil {
		return err
	}
	defer lines.Close() // a scratch or input file that was only read
	if err := d.open(writes); err != nil {
		return err
	}
	now := d.Now()
	bar := d.bar(total, quiet)
	reader := newBatchReader(lines, d.zone(), now)
	var ids bytes.Buffer
	series := newIDSeries(now)
	n, err := d.Store.AddStream(now, func() (store.NewTask, bool, error) {
		t, more, err := reader.next()
		d.fillIn(&t)
		if t.ID == "" {
			t.ID = series.next()
		}
		return t, more, err
	}, func(id string) {
		ids.WriteString(id)
		ids.WriteByte('\n')
		_ = bar.Add(1) // a bar that can't be drawn must not stop the batch
	})
	_ = bar.Clear() // as above
	if err != nil {
		return batchError(err, reader)
	}
	return d.reportBatch(int64(n), ids.Bytes(), quiet)
}

// idSeries gives the tasks of a batch ids that follow one another. Random ones,
// of the same millisecond, would meet: of 400,000 with 40 random bits one batch in
// fourteen has two alike.
type idSeries struct {
	head string
	n    uint64
}

// idBits are the random bits of an id, written as idDigits hexadecimal digits.
const idBits, idDigits = 40, 10

func newIDSeries(now time.Time) *idSeries {
	first := task.NewID(now)
	cut := len(first) - idDigits
	n, err := strconv.ParseUint(first[cut:], 16, 64)
	if err != nil {
		panic("operator: task.NewID no longer ends in 40 hexadecimal bits: " + first)
	}
	return &idSeries{head: first[:cut], n: n}
}

func (s *idSeries) next() string {
	id := fmt.Sprintf("%s%0*x", s.head, idDigits, s.n)
	s.n = (s.n + 1) & (1<<idBits - 1)
	return id
}

// reportBatch prints the ids; a person at a terminal gets their number.
func (d *Desk) reportBatch(n int64, ids []byte, quiet bool) error {
	if d.Style.Terminal {
		if err := d.say("%s added", screen.Plural(n, "task")); err != nil {
			return err
		}
	} else if _, err := d.Out.Write(ids); err != nil {
		return err
	}
	if quiet || n == 0 {
		return nil
	}
	return d.warnOfRest()
}

// bar draws progress where a person can see it.
func (d *Desk) bar(total int64, quiet bool) *progressbar.ProgressBar {
	if !d.ErrTerminal || quiet {
		return progressbar.DefaultSilent(total)
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(d.Err),
		progressbar.OptionSetDescription("adding"),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// checkBatch reads all lines once and returns them for the second reading.
func (d *Desk) checkBatch(name string) (lines *os.File, total int64, err error) {
	in := d.In
	if name != "-" {
		if lines, err = os.Open(name); err != nil {
			return nil, 0, fmt.Errorf("read the batch: %w", err)
		}
		in = lines
		if info, err := lines.Stat(); err == nil && info.Mode().IsRegular() {
			return d.checkLines(lines, in, nil)
		}
		defer lines.Close() // a pipe: what it gave is in the scratch file
	}
	scratch, err := os.CreateTemp("", "nightshift-batch-")
	if err != nil {
		return nil, 0, fail(ExitCantCreate, "set TMPDIR to a directory with room", "make a scratch file for the batch: %v", err)
	}
	if err := os.Remove(scratch.Name()); err != nil {
		scratch.Close()
		return nil, 0, fail(ExitIO, "", "unlink the scratch file of the batch: %v", err)
	}
	return d.checkLines(scratch, in, scratch)
}

// checkLines checks every line of in, copies them to copyTo unless that is nil,
// and rewinds lines.
func (d *Desk) checkLines(lines *os.File, in io.Reader, copyTo io.Writer) (*os.File, int64, error) {
	var scratch *bufio.Writer
	if copyTo != nil {
		scratch = bufio.NewWriter(copyTo)
		in = io.TeeReader(in, scratch)
	}
	reader := newBatchReader(in, d.zone(), d.Now())
	total := int64(0)
	for {
		_, more, err := reader.next()
		if err != nil {
			lines.Close()
			return nil, 0, err
		}
		if !more {
			break
		}
		total++
	}
	if scratch != nil {
		if err := scratch.Flush(); err != nil {
			lines.Close()
			return nil, 0, fail(ExitIO, "set TMPDIR to a directory with room", "keep the batch in a scratch file: %v", err)
		}
	}
	if _, err := lines.Seek(0, io.SeekStart); err != nil {
		lines.Close()
		return nil, 0, fail(ExitIO, "", "read the batch again: %v", err)
	}
	return lines, total, nil
}

// batchReader makes tasks of lines.
type batchReader struct {
	in    *bufio.Reader
	zone  *time.Location
	now   time.Time
	line  int
	lines []int // the line of each task so far, for an error of the store
}

func newBatchReader(in io.Reader, zone *time.Location, now time.Time) *batchReader {
	return &batchReader{in: bufio.NewReaderSize(in, 64<<10), zone: zone, now: now}
}

// next reads the next task; blank lines are passed over.
func (r *batchReader) next() (t store.NewTask, more bool, err error) {
	for {
		r.line++
		text, err := r.readLine()
		if err != nil {
			return t, false, err
		}
		if text == nil {
			return t, false, nil
		}
		if r.line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		t, err := r.parse(text)
		r.lines = append(r.lines, r.line)
		return t, err == nil, err
	}
}

// readLine returns the next line without its end; nil at the end of the input.
func (r *batchReader) readLine() ([]byte, error) {
	line := []byte{}
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fail(ExitInput, "nothing was added; is it one JSON object a line?", "line %d has more than %d bytes", r.line, maxLine)
		case err == nil:
			return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, nil
		case errors.Is(err, io.EOF):
			return line, nil
		default:
			return nil, fail(ExitIO, "nothing was added", "read line %d: %v", r.line, err)
		}
	}
}

// batchKeys are the keys of a line, by column name and by flag name.
var batchKeys = map[string]string{
	"task_type": "type", "type": "type",
	"task_id": "id", "id": "id",
	"payload":  "payload",
	"priority": "priority",
	"at":       "at", "next_run_time": "at",
	"in":        "in",
	"max_retry": "max_retry",
	"timeout":   "timeout", "timeout_seconds": "timeout",
	"key": "key", "unique_key": "key",
	"hold": "hold",
}

// parse makes a task of one line. The payload is kept byte for byte.
func (r *batchReader) parse(line []byte) (t store.NewTask, err error) {
	if err := r.checkLine(line); err != nil {
		return t, err
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return t, r.bad(line, 0, `one JSON object is expected, like {"type": "clean_csv", "payload": {}}`)
	}
	seen := map[string]bool{}
	for dec.More() {
		start := valueStart(line, int(dec.InputOffset()))
		tok, err := dec.Token()
		if err != nil {
			return t, r.bad(line, start, err.Error())
		}
		name, _ := tok.(string)
		key, known := batchKeys[name]
		switch {
		case !known:
			return t, r.bad(line, start, unknownBatchKey(name))
		case seen[key]:
			return t, r.bad(line, start, fmt.Sprintf("the key %s is given twice", key))
		}
		seen[key] = true
		start = valueStart(line, int(dec.InputOffset()))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return t, r.bad(line, start, err.Error())
		}
		if why := r.set(&t, key, value); why != "" {
			return t, r.bad(line, start, why)
		}
	}
	switch {
	case !seen["type"]:
		return t, r.refused("it has no type")
	case seen["at"] && seen["in"]:
		return t, r.refused("at and in exclude each other")
	}
	if err := t.Check(); err != nil {
		return t, r.refused(err.Error())
	}
	return t, nil
}

// checkLine finds what is wrong with a line as JSON. It goes before the reading of
// its parts, because a decoder in the middle of an object counts places otherwise.
func (r *batchReader) checkLine(line []byte) error {
	if i := badByte(line); i >= 0 {
		return r.bad(line, i, fmt.Sprintf("byte 0x%02x is no UTF-8 text", line[i]))
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	var whole json.RawMessage
	if err := dec.Decode(&whole); err != nil {
		return r.bad(line, syntaxOffset(err, len(line)), syntaxReason(err))
	}
	if rest := valueStart(line, int(dec.InputOffset())); rest < len(line) {
		return r.bad(line, rest, "text after the object; each task has a line of its own")
	}
	return nil
}

// valueStart passes over what stands between two tokens.
func valueStart(line []byte, i int) int {
	for i < len(line) && strings.IndexByte(" \t\r\n:,", line[i]) >= 0 {
		i++
	}
	return i
}

func unknownBatchKey(name string) string {
	var names []string
	for n := range batchKeys {
		names = append(names, n)
	}
	slices.Sort(names)
	if near := config.Nearest(name, names); near != "" {
		return fmt.Sprintf("unknown key %s; did you mean %q?", quote(name), near)
	}
	return fmt.Sprintf("unknown key %s; there are: %s", quote(name), strings.Join(names, ", "))
}

// bad names the place of a mistake. line and column count from 1.
func (r *batchReader) bad(line []byte, offset int, why string) error {
	offset = min(offset, len(line))
	return fail(ExitInput, "nothing was added", "line %d, column %d: %s", r.line, 1+utf8.RuneCount(line[:offset]), why)
}

// refused is a mistake of a line as a whole.
func (r *batchReader) refused(why string) error {
	return fail(ExitInput, "nothing was added", "line %d: %s", r.line, why)
}

// set puts one value into the task; the answer is what is wrong with it, or "".
func (r *batchReader) set(t *store.NewTask, key string, value json.RawMessage) string {
	if key == "payload" {
		t.Payload = string(value)
		if len(value) > task.MaxJSONBytes {
			return fmt.Sprintf("the payload has more than %d bytes (1 MiB)", task.MaxJSONBytes)
		}
		return ""
	}
	if string(value) == "null" {
		return "" // as if it were not there: the default
	}
	text, isText := jsonText(value)
	if !isText {
		text = string(value) // shown in the message that refuses it
	}
	var err error
	switch key {
	case "type", "id", "key":
		if !isText {
			return fmt.Sprintf("%s must be a text, not %s", key, value)
		}
		if key == "id" {
			err = task.CheckID(text)
		}
		*map[string]*string{"type": &t.Type, "id": &t.ID, "key": &t.UniqueKey}[key] = text
	case "priority":
		t.Priority, err = wholeNumber(key, value, math.MinInt64)
	case "max_retry":
		t.MaxRetry, err = wholeNumber(key, value, 0)
	case "timeout":
		if isText {
			t.Timeout, err = parseTimeout(text)
		} else {
			t.Timeout, err = wholeNumber(key, value, 0)
		}
	case "at":
		t.NextRun, err = ParseTime(text, r.now, r.zone)
	case "in":
		var offset time.Duration
		offset, err = ParseOffset(key, text)
		t.NextRun = r.now.Add(offset)
	case "hold":
		t.Held, err = strconv.ParseBool(string(value))
		if err != nil {
			return fmt.Sprintf("hold must be true or false, not %s", value)
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// jsonText is the text of a JSON string; false for another value.
func jsonText(value json.RawMessage) (string, bool) {
	var s string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return "", false
	}
	return s, true
}

func wholeNumber(key string, value json.RawMessage, least int64) (*int64, error) {
	n, err := ParseNumber(key, string(value), least)
	return &n, err
}

// batchError names the line of a task that the database refused.
func batchError(err error, r *batchReader) error {
	var (
		input  *store.InputError
		exists *store.ExistsError
	)
	index := -1
	switch {
	case errors.As(err, &input):
		index = input.Index
	case errors.As(err, &exists):
		index = exists.Index
	}
	if index < 0 || index >= len(r.lines) {
		return err
	}
	own := addError(err)
	return fail(ExitCode(own), "nothing was added", "line %d: %v", r.lines[index], own)
}
