package operator

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"nightshift/pkg/config"
	"nightshift/pkg/store"
)

// mode is what a verb wants of the database.
type mode bool

const (
	reads  mode = false
	writes mode = true
)

// configure loads the configuration, once.
func (d *Desk) configure() error {
	if d.Config != nil {
		return nil
	}
	path, err := config.Find(d.ConfigFlag)
	if err != nil {
		return err
	}
	c, err := config.Load(path)
	if err != nil {
		return err
	}
	if d.DataFlag != "" {
		if err := c.UseData(d.DataFlag); err != nil {
			return err
		}
	}
	d.Config = c
	return nil
}

// open opens the database, once. A verb reads its arguments, and whatever files
// they name, before: after it the process may be another user.
func (d *Desk) open(m mode) error {
	if d.Store != nil {
		return nil
	}
	if err := d.configure(); err != nil {
		return err
	}
	if err := BecomeOwner(d.Config.Database()); err != nil {
		return err
	}
	s, err := store.Open(store.Options{
		Path:     d.Config.Database(),
		RunDir:   d.Config.RunDir(),
		ReadOnly: m == reads,
		MaxWait:  cmp.Or(d.Patience, maxWait),
		Clock:    d.Now,
	})
	if err != nil {
		return err
	}
	d.Store = s
	return nil
}

// Close closes what open opened. Its error matters to a verb that wrote.
func (d *Desk) Close() error {
	if d.Store == nil {
		return nil
	}
	err := d.Store.Close()
	d.Store = nil
	return err
}

// BecomeOwner makes a process of root one of the user whose database it is about
// to open. SQLite makes files beside the database; those of root would lock the
// service out (case DB-07).
func BecomeOwner(database string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	owner, group, err := ownerOf(database)
	if err != nil || owner == 0 {
		return err
	}
	groups := []int{group}
	if u, err := user.LookupId(strconv.Itoa(owner)); err == nil {
		if g, err := strconv.Atoi(u.Gid); err == nil {
			group = g
		}
		groups = numbers(u, group)
	}
	// In this order: without root neither of the first two is allowed.
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("become user %d, who owns %s: %w", owner, database, err)
	}
	if err := syscall.Setgid(group); err != nil {
		return fmt.Errorf("become user %d, who owns %s: %w", owner, database, err)
	}
	if err := syscall.Setuid(owner); err != nil {
		return fmt.Errorf("become user %d, who owns %s: %w", owner, database, err)
	}
	return nil
}

// numbers is the user's groups; the first one alone when they can't be read.
func numbers(u *user.User, primary int) []int {
	groups := []int{primary}
	ids, err := u.GroupIds()
	if err != nil {
		return groups
	}
	for _, id := range ids {
		if g, err := strconv.Atoi(id); err == nil && g != primary {
			groups = append(groups, g)
		}
	}
	return groups
}

// ownerOf is the owner of a file, or of the nearest directory above it that
// exists.
func ownerOf(path string) (uid, gid int, err error) {
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil:
			st, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return 0, 0, nil
			}
			return int(st.Uid), int(st.Gid), nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return 0, 0, fmt.Errorf("look at %s: %w", path, err)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return 0, 0, nil
		}
		path = parent
	}
}
