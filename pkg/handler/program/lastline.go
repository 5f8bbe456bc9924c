package program

import "bytes"

// lastLine finds the last line that is not blank in a stream of any length, with
// memory for one line. Of a line that was drawn over by carriage returns (progress
// bars) what stands last counts. A line over the limit keeps its first max bytes.
type lastLine struct {
	max  int
	line []byte // the line in hand
	over bool   // it was longer than max
	cr   bool   // it ends, so far, in a carriage return
	done []byte // the last complete line that was not blank
	cut  bool   // that one was longer than max
}

// feed takes the next bytes of the stream.
func (l *lastLine) feed(p []byte) {
	i := bytes.LastIndexByte(p, '\n')
	if i < 0 {
		l.extend(p)
		return
	}
	// Only the last line that is not blank can matter of what is complete.
	for end := i; ; {
		begin := bytes.LastIndexByte(p[:end], '\n') + 1
		if begin == 0 {
			l.extend(p[:end])
			l.complete()
			break
		}
		if !blank(drawn(p[begin:end])) {
			l.restart()
			l.extend(p[begin:end])
			l.complete()
			break
		}
		end = begin - 1
	}
	l.restart()
	l.extend(p[i+1:])
}

// complete ends the line in hand.
func (l *lastLine) complete() {
	if !blank(l.line) {
		l.done, l.line = l.line, l.done[:0]
		l.cut = l.over
	}
}

func (l *lastLine) restart() { l.line, l.over, l.cr = l.line[:0], false, false }

// extend adds to the line in hand; p holds no newline.
func (l *lastLine) extend(p []byte) {
	trimmed := bytes.TrimRight(p, "\r")
	if len(trimmed) == 0 {
		l.cr = l.cr || len(p) > 0
		return
	}
	body := drawn(p)
	if l.cr || len(body) < len(trimmed) {
		l.restart()
	}
	l.cr = p[len(p)-1] == '\r'
	if room := l.max - len(l.line); len(body) > room {
		l.over = true
		body = body[:room]
	}
	l.line = append(l.line, body...)
}

// drawn is what stands last in a line that was drawn over.
func drawn(p []byte) []byte {
	p = bytes.TrimRight(p, "\r")
	return p[bytes.LastIndexByte(p, '\r')+1:]
}

// text is the last line so far, and whether it is all of it.
func (l *lastLine) text() (line []byte, whole bool) {
	if !blank(l.line) {
		return bytes.TrimSpace(l.line), !l.over
	}
	return bytes.TrimSpace(l.done), !l.cut
}

func blank(p []byte) bool { return len(bytes.TrimSpace(p)) == 0 }
