package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"time"
)

// rawPeer is the bare SQLite loop: one writer connection, claim by UPDATE ... RETURNING over a
// partial index, complete by UPDATE; Batch rows in one transaction.
type rawPeer struct {
	c      settings
	db     *sql.DB
	ins    *sql.Stmt
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

const rawSchema = `
create table jobs (id integer primary key, state integer not null default 0, prio integer not null default 0,
  run_at integer not null default 0, attempt integer not null default 0, started integer, done integer, payload blob not null) strict;
create index jobs_ready on jobs (prio desc, id) where state = 0;
create index jobs_later on jobs (run_at) where state = 1;` // 0 ready, 1 later, 2 running, 3 done

func (p *rawPeer) Open() (err error) {
	if p.db, err = openSQLite("sqlite3", p.c, true); err != nil {
		return err
	}
	if p.c.Batch == 0 {
		p.c.Batch = 1
	}
	p.ins, err = p.db.Prepare(`insert into jobs (payload) values (?)`)
	if err != nil && strings.Contains(err.Error(), "no such table") {
		err = nil
	}
	return err
}

func (p *rawPeer) Setup() error {
	if err := p.Open(); err != nil {
		return err
	}
	if _, err := p.db.Exec(rawSchema); err != nil {
		return err
	}
	var err error
	p.ins, err = p.db.Prepare(`insert into jobs (payload) values (?)`)
	return err
}

func (p *rawPeer) Insert(j job) error { _, err := p.ins.Exec(j.bytes()); return err }

func (p *rawPeer) InsertBatch(js []job) error {
	return inTx(p.db, func(tx *sql.Tx) error {
		st := tx.Stmt(p.ins)
		for _, j := range js {
			if _, err := st.Exec(j.bytes()); err != nil {
				return err
			}
		}
		return nil
	})
}

// rawPoll is how often a raw worker that found nothing asks for data_version.
const rawPoll = time.Millisecond

const rawClaim1 = `update jobs set state = 2, attempt = attempt + 1, started = ? where id =
	(select id from jobs where state = 0 order by prio desc, id limit 1) returning id, payload`
const rawClaimN = `update jobs set state = 2, attempt = attempt + 1, started = ? where id in
	(select id from jobs where state = 0 order by prio desc, id limit ?) returning id, payload`

func (p *rawPeer) Start(h func(job)) error {
	claim1, err := p.db.Prepare(rawClaim1)
	if err != nil {
		return err
	}
	claimN, err := p.db.Prepare(rawClaimN)
	if err != nil {
		return err
	}
	done, err := p.db.Prepare(`update jobs set state = 3, done = ? where id = ?`)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	one := func() (int, error) {
		var id int64
		var b []byte
		err := claim1.QueryRow(time.Now().UnixMilli()).Scan(&id, &b)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		h(parseJob(b))
		_, err = done.Exec(time.Now().UnixMilli(), id)
		return 1, err
	}
	many := func() (int, error) {
		var ids []int64
		var jobs []job
		rows, err := claimN.Query(time.Now().UnixMilli(), p.c.Batch)
		if err != nil {
			return 0, err
		}
		for rows.Next() {
			var id int64
			var b []byte
			if err := rows.Scan(&id, &b); err != nil {
				return 0, err
			}
			ids, jobs = append(ids, id), append(jobs, parseJob(b))
		}
		if err := rows.Err(); err != nil || len(ids) == 0 {
			return 0, err
		}
		for _, j := range jobs {
			h(j)
		}
		return len(ids), inTx(p.db, func(tx *sql.Tx) error {
			st := tx.Stmt(done)
			for _, id := range ids {
				if _, err := st.Exec(time.Now().UnixMilli(), id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	work := one
	if p.c.Batch > 1 {
		work = many
	}
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		var last int64 = -1
		for ctx.Err() == nil {
			// data_version changes when another connection has committed: a read of shared memory.
			var v int64
			if err := p.db.QueryRow(`pragma data_version`).Scan(&v); err != nil {
				troubles.add(err.Error())
			}
			if v == last {
				time.Sleep(rawPoll)
				continue
			}
			last = v
			for ctx.Err() == nil {
				n, err := work()
				if err != nil {
					troubles.add(err.Error())
					continue
				}
				if n == 0 {
					break
				}
			}
		}
	}()
	return nil
}

func (p *rawPeer) Stop() { p.cancel(); p.wg.Wait() }
func (p *rawPeer) Pending() int {
	return countRow(p.db, `select count(*) from jobs where state in (0,2)`)
}
