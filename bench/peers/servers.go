package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// server is one that we started on a port of the loopback, and end by its pid.
type server struct {
	cmd  *exec.Cmd
	port int
	quit syscall.Signal
}

func (s *server) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

func (s *server) stop() {
	if s == nil {
		return
	}
	// One that has ended by itself needs no signal, and how it ended says nothing.
	_ = s.cmd.Process.Signal(s.quit)
	_ = s.cmd.Wait()
}

// freePort is a port that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// launch starts a server and waits until it accepts connections.
func launch(cmd *exec.Cmd, port int, quit syscall.Signal, log string) (*server, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd, port, quit}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if c, err := net.DialTimeout("tcp", s.address(), time.Second); err == nil {
			return s, c.Close()
		}
	}
	s.stop()
	said, _ := os.ReadFile(log) // what it said is for the message only
	return nil, fmt.Errorf("%s does not listen: %s", cmd.Path, said)
}

// startRedis starts redis with an append-only file and no snapshots.
func startRedis(dir string) (*server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "redis")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", data, "--appendonly", "yes",
		"--save", "", "--daemonize", "no", "--loglevel", "warning")
	return launch(cmd, port, syscall.SIGTERM, filepath.Join(dir, "redis.log"))
}

// startPostgres starts a fresh PostgreSQL as initdb makes it (fsync and
// synchronous_commit on). It does not run as root: then the user postgres is taken.
func startPostgres(dir string) (*server, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "pg")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	attr, err := postgresUser(dir, data)
	if err != nil {
		return nil, err
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "postgres")
	initdb.SysProcAttr, initdb.Dir = attr, data
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", fmt.Sprint(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	cmd.SysProcAttr, cmd.Dir = attr, data
	return launch(cmd, port, syscall.SIGINT, filepath.Join(dir, "pg.log"))
}

func postgresBin() (string, error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if _, err := os.Stat(filepath.Join(dirs[i], "postgres")); err == nil {
			return dirs[i], nil
		}
	}
	return "", errors.New("no PostgreSQL server (initdb, postgres) is installed")
}

func postgresUser(dir, data string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and %w", err)
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uerr, gerr, os.Chmod(dir, 0o711), os.Chown(data, int(uid), int(gid))); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// moduleFile reads a file of a module that this program is built with.
func moduleFile(module, name string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("where is %s: %w", module, err)
	}
	b, err := os.ReadFile(filepath.Join(string(out[:len(out)-1]), name))
	return string(b), err
}
