// Package layers holds the list of who may import whom. Imports point down only.
package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rooms lists, for each package of ours, the packages of ours it may import.
// Only cmd/ and pkg/worker (the composition root) know nearly all.
var rooms = map[string][]string{
	"pkg/task":                   {},
	"pkg/liveness":               {},
	"pkg/logging":                {"pkg/task", "pkg/config"},
	"pkg/cron":                   {"pkg/task"},
	"pkg/config":                 {"pkg/task", "pkg/cron"},
	"pkg/execlog":                {},
	"pkg/supervisor":             {"pkg/liveness"},
	"pkg/failpoint":              {},
	"pkg/store":                  {"", "pkg/task", "pkg/liveness", "pkg/failpoint"},
	"pkg/handler":                {"pkg/task"},
	"pkg/handler/handlertest":    {"pkg/task", "pkg/handler"},
	"pkg/handler/program":        {"pkg/task", "pkg/handler", "pkg/execlog", "pkg/liveness", "pkg/failpoint", "pkg/handler/program/client"},
	"pkg/handler/program/client": {"pkg/task", "pkg/handler"},
	"pkg/handler/fetchdata":      {"pkg/task", "pkg/handler"},
	"pkg/handler/renderreport":   {"pkg/task", "pkg/handler", "pkg/store"},
	"pkg/operator/screen":        {"pkg/task"},
	"pkg/operator/cmdline":       {"pkg/config", "pkg/operator/screen"},
	"pkg/executor":               {"pkg/task", "pkg/handler", "pkg/store", "pkg/failpoint"},
	"pkg/scheduler":              {"pkg/task", "pkg/handler", "pkg/store", "pkg/executor", "pkg/cron", "pkg/liveness", "pkg/failpoint"},
}

// wide are the rooms that may import anything of ours below cmd/.
var wide = []string{"pkg/worker", "pkg/operator", "cmd/worker"}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestImportsPointDownOnly(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./pkg/...", "./cmd/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		check(t, p)
	}
}

func check(t *testing.T, p listed) {
	t.Helper()
	room := strings.TrimPrefix(p.ImportPath, "nightshift/")
	may, known := rooms[room]
	for _, imp := range p.Imports {
		if imp != "nightshift" && !strings.HasPrefix(imp, "nightshift/") {
			continue
		}
		to := strings.TrimPrefix(strings.TrimPrefix(imp, "nightshift"), "/")
		switch {
		case strings.HasPrefix(to, "cmd/"):
			t.Errorf("%s imports %s: nothing imports a command", room, to)
		case slices.Contains(wide, room), room == "cmd/supervisor" && to == "pkg/supervisor":
		case !known:
			t.Errorf("%s is not in the list of rooms, and imports %s", room, to)
		case !slices.Contains(may, to):
			t.Errorf("%s must not import %s", room, to)
		}
	}
}
