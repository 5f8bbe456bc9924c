/* Fails or delays what SQLite asks of libc for the database's files, at the Nth
 * call, as the file named in FAULT_SHIM says. Preloaded into a worker by the
 * tests; Go's own system calls do not pass here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The test writes it (shim_test.go holds the same layout). */
struct plan {
	int op;          /* which call: 1 fsync, 2 write; 0: none */
	int err;         /* errno to return; 0: only the delay */
	int nth;         /* the first call that is hit, from 1 */
	int forever;     /* and all after it */
	int delay_us;
	volatile int count, fired;
	char suffix[32]; /* of the file's name */
};

static struct plan *plan(void)
{
	static struct plan *p;
	const char *path;
	int fd;
	if (p || !(path = getenv("FAULT_SHIM")))
		return p;
	if ((fd = open(path, O_RDWR)) < 0)
		return NULL;
	void *m = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (m != MAP_FAILED)
		p = m;
	return p;
}

static int ends(int fd, const char *suffix)
{
	char link[64], name[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, name, sizeof name - 1);
	size_t k = strlen(suffix);
	return n >= (ssize_t)k && !memcmp(name + n - k, suffix, k);
}

/* hit counts a call, and says whether it fails. */
static int hit(int op, int fd)
{
	struct plan *p = plan();
	if (!p || p->op != op || !ends(fd, p->suffix))
		return 0;
	int n = __sync_add_and_fetch(&p->count, 1);
	if (n < p->nth || (n > p->nth && !p->forever))
		return 0;
	__sync_add_and_fetch(&p->fired, 1);
	if (p->delay_us)
		usleep(p->delay_us);
	if (!p->err)
		return 0;
	errno = p->err;
	return 1;
}

#define REAL(name, ret, ...) \
	static ret (*real)(__VA_ARGS__); \
	if (!real) \
		real = (ret (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

int fsync(int fd)
{
	REAL("fsync", int, int);
	return hit(1, fd) ? -1 : real(fd);
}

int fdatasync(int fd)
{
	REAL("fdatasync", int, int);
	return hit(1, fd) ? -1 : real(fd);
}

ssize_t write(int fd, const void *b, size_t n)
{
	REAL("write", ssize_t, int, const void *, size_t);
	return hit(2, fd) ? -1 : real(fd, b, n);
}

ssize_t pwrite(int fd, const void *b, size_t n, off_t at)
{
	REAL("pwrite", ssize_t, int, const void *, size_t, off_t);
	return hit(2, fd) ? -1 : real(fd, b, n, at);
}

ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at)
{
	REAL("pwrite64", ssize_t, int, const void *, size_t, off64_t);
	return hit(2, fd) ? -1 : real(fd, b, n, at);
}
