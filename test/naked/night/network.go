package night

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// network is the server that fetch_data asks, at the end of a cable: a veth pair
// into a namespace of its own, which is pulled by setting it down. Where that
// can't be had the server listens here, and is killed for a cut.
type network struct {
	g     *ground
	ns    string // "": no namespace
	veth  string
	peer  string // its other end, in the namespace
	addr  string
	url   string
	serve *exec.Cmd
}

// What the server has; the order of its ids is known (examples/apiserver/paged).
const (
	fetchItems = 200
	fetchPage  = 10
	firstID    = 1<<53 + 1
)

func newNetwork(g *ground) (*network, error) {
	w := &network{g: g}
	wired := w.wire()
	if wired != nil {
		w.unwire()
		w.ns = ""
		w.addr = fmt.Sprintf("127.0.0.1:%d", 20000+os.Getpid()%20000)
	}
	w.url = "http://" + w.addr
	if err := w.start(); err != nil {
		return w, err
	}
	return w, wired
}

func (w *network) wire() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("not root")
	}
	n := os.Getpid() % 60000
	w.ns, w.veth = fmt.Sprintf("nakedns%d", n), fmt.Sprintf("nkd%d", n)
	w.peer = fmt.Sprintf("nkp%d", n)
	net := fmt.Sprintf("10.%d.%d.", 200+n/250%50, n%250)
	w.addr = net + "2:8089"
	for _, args := range []string{
		"netns add " + w.ns,
		"link add " + w.veth + " type veth peer name " + w.peer,
		"link set " + w.peer + " netns " + w.ns,
		"addr add " + net + "1/30 dev " + w.veth,
		"link set " + w.veth + " up",
		"netns exec " + w.ns + " ip addr add " + net + "2/30 dev " + w.peer,
		"netns exec " + w.ns + " ip link set " + w.peer + " up",
	} {
		if out, err := run(append([]string{"ip"}, strings.Fields(args)...)...); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return nil
}

func (w *network) unwire() {
	if w.ns != "" {
		_, _ = run("ip", "netns", "del", w.ns) // its end of the pair goes with it, and may not exist
		_, _ = run("ip", "link", "del", w.veth)
	}
}

func (w *network) start() error {
	args := []string{filepath.Join(w.g.bin, "apiserver"), "-addr", w.addr, "-items", fmt.Sprint(fetchItems),
		"-page-size", fmt.Sprint(fetchPage), "-stall", "20ms", "-fail", "0.02", "-cut", "300", "-cut-every", "50"}
	if w.ns != "" {
		// Not `ip netns exec`: that makes a mount namespace, whose copy of the disk's
		// mount would keep the disk busy.
		args = append([]string{"nsenter", "--net=/run/netns/" + w.ns}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		return err
	}
	w.serve = cmd
	return nil
}

func (w *network) cut() error {
	if w.ns != "" {
		return w.link("down")
	}
	return w.end()
}

func (w *network) mend() error {
	if w.ns != "" {
		return w.link("up")
	}
	return w.start()
}

// link sets the far end: with the near one down the route would go, and the packets
// with it to whoever is the default gateway here.
func (w *network) link(state string) error {
	if out, err := run("nsenter", "--net=/run/netns/"+w.ns, "ip", "link", "set", w.peer, state); err != nil {
		return fmt.Errorf("ip link set %s: %w: %s", state, err, out)
	}
	return nil
}

func (w *network) end() error {
	if w.serve == nil {
		return nil
	}
	cmd := w.serve
	w.serve = nil
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	_ = cmd.Wait() // it was killed
	time.Sleep(10 * time.Millisecond)
	return nil
}

func (w *network) remove() {
	if err := w.end(); err != nil {
		w.g.story.say("apiserver: %v", err)
	}
	w.unwire()
}
