/* Calls on descriptors, with a socket as the descriptor. */
#include "table.h"
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static void done(struct scene *scene)
{
	say_events("poll", events_of(scene->socket));
}

static void run_fcntl(struct scene *scene, long command, long argument)
{
	result(fcntl(scene->socket, command, argument));
	say(" flags=%x cloexec=%d", fcntl(scene->socket, F_GETFL), fcntl(scene->socket, F_GETFD));
}

static void run_fcntl_dup(struct scene *scene, long command, long least)
{
	int fd = fcntl(scene->socket, command, least);
	if (fd < 0) {
		result(fd);
		return;
	}
	say(" at least %d cloexec=%d", fd >= least, fcntl(fd, F_GETFD));
	done(scene);
	close(fd);
}

static void run_owner(struct scene *scene, long kind, long b)
{
	struct f_owner_ex ex = { F_OWNER_PID, getpid() }, got = { 0 };
	(void)b;
	if (kind == 0)
		result(fcntl(scene->socket, F_SETOWN, getpid()));
	else if (kind == 1)
		result(fcntl(scene->socket, F_SETOWN_EX, &ex));
	else if (kind == 2)
		result(ioctl(scene->socket, 0x8901 /* FIOSETOWN */, &ex.pid));
	else if (kind == 3)
		result(ioctl(scene->socket, 0x8902 /* SIOCSPGRP */, &ex.pid));
	else
		result(fcntl(scene->socket, F_SETOWN, 99999999));
	int owner = fcntl(scene->socket, F_GETOWN), asked = -1;
	say(" owner=%s", owner == getpid() ? "own" : owner == 0 ? "none" : owner < 0 ? "error" : "other");
	result(fcntl(scene->socket, F_GETOWN_EX, &got));
	say(" %d %d", got.type, got.pid == getpid());
	result(ioctl(scene->socket, 0x8903 /* FIOGETOWN */, &asked));
	say(" %d", asked == getpid());
}

static volatile sig_atomic_t urgents, ios, io_band;

static void on_urgent(int signal)
{
	(void)signal;
	urgents = urgents + 1;
}

static void on_io(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	ios = ios + 1;
	io_band = info->si_code == POLL_IN;
}

/* SIGURG at an urgent byte, SIGIO at input, for the owner. */
static void run_signals(struct scene *scene, long kind, long b)
{
	struct sigaction urgent = { .sa_handler = on_urgent },
			 io = { .sa_sigaction = on_io, .sa_flags = SA_SIGINFO };
	int on = 1;
	(void)b;
	if (scene->peer < 0)
		return;
	sigaction(SIGURG, &urgent, NULL);
	sigaction(SIGIO, &io, NULL);
	sigaction(SIGRTMIN, &io, NULL);
	result(fcntl(scene->socket, F_SETOWN, getpid()));
	if (kind == 1)
		result(fcntl(scene->socket, F_SETFL, O_NONBLOCK | O_ASYNC));
	if (kind == 2) {
		result(fcntl(scene->socket, F_SETSIG, SIGRTMIN));
		result(ioctl(scene->socket, FIOASYNC, &on));
		result(fcntl(scene->socket, F_GETSIG));
	}
	urgents = ios = io_band = 0;
	if (kind == 0)
		result(send(scene->peer, "!", 1, MSG_OOB));
	else
		result(send(scene->peer, "x", 1, 0));
	for (int i = 0; i < 1000 && !(kind == 0 ? urgents : ios); i++)
		usleep(100);
	say(" urgent=%d io=%d band=%d", !!urgents, !!ios, !!io_band);
	on = 0;
	ioctl(scene->socket, FIOASYNC, &on);
	signal(SIGIO, SIG_IGN);
	signal(SIGURG, SIG_IGN);
}

static void run_ioctl_int(struct scene *scene, long request, long value)
{
	int place = value;
	result(ioctl(scene->socket, request, &place));
	say(" value=%d flags=%x cloexec=%d", place, fcntl(scene->socket, F_GETFL),
	    fcntl(scene->socket, F_GETFD));
}

static void run_ioctl_null(struct scene *scene, long request, long b)
{
	(void)b;
	result(ioctl(scene->socket, request, NULL));
}

/* Requests about the interface lo, which is on both machines. */
static void run_ioctl_lo(struct scene *scene, long request, long unknown)
{
	struct ifreq name = { 0 };
	strcpy(name.ifr_name, unknown ? "none0" : "lo");
	if (result(ioctl(scene->socket, request, &name)) < 0 || unknown)
		return;
	switch (request) {
	case SIOCGIFFLAGS:
		say(" %x", name.ifr_flags & (IFF_UP | IFF_LOOPBACK | IFF_BROADCAST | IFF_POINTOPOINT));
		break;
	case SIOCGIFADDR:
	case SIOCGIFNETMASK:
	case SIOCGIFBRDADDR:
	case SIOCGIFDSTADDR:
		say_address(scene, "address", &name.ifr_addr, sizeof(struct sockaddr_in));
		break;
	case SIOCGIFHWADDR:
		say(" %d", name.ifr_hwaddr.sa_family);
		break;
	case SIOCGIFMETRIC:
		say(" %d", name.ifr_metric);
		break;
	}
}

static void run_ifconf(struct scene *scene, long room, long b)
{
	static char place[4096];
	struct ifconf conf = { .ifc_len = room, .ifc_buf = room ? place : NULL };
	(void)b;
	result(ioctl(scene->socket, SIOCGIFCONF, &conf));
	say(" some=%d", conf.ifc_len > 0);
	if (room)
		say(" %s", conf.ifc_len ? ((struct ifreq *)place)->ifr_name : "-");
}

static void run_seek(struct scene *scene, long whence, long b)
{
	(void)b;
	result(lseek(scene->socket, 0, whence));
}

static void run_stat(struct scene *scene, long b, long c)
{
	struct stat status;
	(void)b, (void)c;
	if (result(fstat(scene->socket, &status)) == 0)
		say(" socket=%d size=%ld", S_ISSOCK(status.st_mode), (long)status.st_size);
	struct statfs system;
	if (result(fstatfs(scene->socket, &system)) == 0)
		say(" %lx", (long)system.f_type);
	char path[64], link[64] = "";
	snprintf(path, sizeof path, "/proc/self/fd/%d", scene->socket);
	long len = readlink(path, link, sizeof link - 1);
	say(" %.8s", len > 0 ? link : "no link");
}

static void run_file_call(struct scene *scene, long kind, long b)
{
	int fd = scene->socket;
	(void)b;
	switch (kind) {
	case 0: result(ftruncate(fd, 0)); break;
	case 1: result(fsync(fd)); break;
	case 2: result(fdatasync(fd)); break;
	case 3: result(isatty(fd)); result(-1); break;
	case 4: result(flock(fd, LOCK_EX | LOCK_NB)); break;
	case 5: result(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0); break;
	case 6: result(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL) ? -1 : 0); break;
	case 7: result(fallocate(fd, 0, 0, 1)); break;
	case 8: result(fchdir(fd)); break;
	case 9: result(openat(fd, "x", O_RDONLY)); break;
	case 10: result(readahead(fd, 0, 1)); break;
	case 11: result(sync_file_range(fd, 0, 1, 0)); break;
	}
}

/* A duplicate is the same socket, and outlives the first. */
static void run_dup(struct scene *scene, long kind, long b)
{
	char got[20] = "";
	int fd = kind == 0 ? dup(scene->socket) : kind == 1 ? dup2(scene->socket, 500) :
		 kind == 2 ? dup3(scene->socket, 500, O_CLOEXEC) : kind == 3 ? dup2(scene->socket, scene->socket) :
		 kind == 4 ? dup3(scene->socket, scene->socket, 0) : kind == 5 ? dup2(scene->socket, -1) :
							dup3(scene->socket, 500, 1);
	(void)b;
	if (fd < 0 || fd == scene->socket) {
		result(fd < 0 ? fd : 0);
		return;
	}
	say(" %s cloexec=%d flags=%x", kind == 0 ? "some" : fd == 500 ? "500" : "?", fcntl(fd, F_GETFD),
	    fcntl(fd, F_GETFL));
	close(scene->socket);
	result(recv(scene->socket, got, 1, 0));
	result(recv(fd, got, 4, 0));
	say_received(scene, result(send(fd, "dup", 3, 0)));
	if (scene->peer >= 0)
		say_events("poll", events_of(fd));
	result(close(fd));
	scene->socket = dup(0);
}

static void run_close(struct scene *scene, long kind, long b)
{
	int fd = scene->socket;
	(void)b;
	result(kind == 0 ? close(fd) : kind == 1 ? close_range(fd, fd, 0) : close_range(fd, fd, CLOSE_RANGE_CLOEXEC));
	if (kind == 2)
		say(" cloexec=%d", fcntl(fd, F_GETFD));
	result(close(fd));
	if (scene->type == SOCK_STREAM && scene->peer >= 0)
		say_events("peer", comes(scene->peer, POLLIN | POLLHUP) ? events_of(scene->peer) & ~POLLERR : 0);
	scene->socket = dup(0);
}

/* SO_LINGER above 0: close waits until all is acknowledged. */
static void run_linger(struct scene *scene, long seconds, long bytes)
{
	static char large[1 << 16];
	struct linger wait = { 1, seconds };
	result(setsockopt(scene->socket, SOL_SOCKET, SO_LINGER, &wait, sizeof wait));
	fcntl(scene->socket, F_SETFL, 0);
	if (scene->peer >= 0 && bytes)
		result(send(scene->socket, large, bytes, MSG_NOSIGNAL));
	result(close(scene->socket));
	if (scene->peer >= 0)
		/* Unread bytes make it a reset, which may come later. */
		say_events("peer", comes(scene->peer, seconds || scene->listener < 0 ? POLLIN : POLLHUP) ?
					   events_of(scene->peer) & (seconds ? POLLIN : -1) : 0);
	scene->socket = dup(0);
}

/* A peer that takes no more: close waits for as long as SO_LINGER says. */
static void run_linger_full(struct scene *scene, long seconds, long shut)
{
	static char large[1 << 16];
	struct linger wait = { 1, seconds };
	struct itimerval off = { 0 };
	struct timespec begin, end;
	if (scene->peer < 0)
		return;
	setitimer(ITIMER_REAL, &off, NULL);
	result(setsockopt(scene->socket, SOL_SOCKET, SO_LINGER, &wait, sizeof wait));
	while (send(scene->socket, large, sizeof large, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		;
	if (shut)
		result(shutdown(scene->socket, SHUT_WR));
	clock_gettime(CLOCK_MONOTONIC, &begin);
	result(close(scene->socket));
	clock_gettime(CLOCK_MONOTONIC, &end);
	long took = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
	say(" waited=%d", took >= seconds * 900);
	scene->socket = dup(0);
}

/* tee(2) is for pipes only. */
static void run_tee(struct scene *scene, long to, long b)
{
	int both[2];
	(void)b;
	CHECK(pipe(both) == 0 && write(both[1], "abc", 3) == 3);
	result(to ? tee(both[0], scene->socket, 3, 0) : tee(scene->socket, both[1], 3, 0));
	result(vmsplice(scene->socket, &(struct iovec){ "abc", 3 }, 1, 0));
	close(both[0]), close(both[1]);
}

static void run_stdio(struct scene *scene, long kind, long b)
{
	static const char *const modes[] = { "r", "w", "r+", "a", "rb", "w+" };
	char line[32] = "";
	int sent = 0;
	FILE *file = fdopen(dup(scene->socket), modes[kind]);
	(void)b;
	if (!file) {
		result(-1);
		return;
	}
	if (modes[kind][0] == 'r') {
		errno = 0;
		char *got = fgets(line, 6, file);
		say(" fgets=%d %s eof=%d error=%d", !!got, strerrorname_np(errno), !!feof(file), !!ferror(file));
		say_bytes("line", line, strlen(line));
		errno = 0;
		say(" getc=%d", getc(file));
		clearerr(file);
	}
	if (modes[kind][0] != 'r' || modes[kind][1] == '+') {
		if (kind == 2)
			fseek(file, 0, SEEK_CUR);
		errno = 0;
		int put = fprintf(file, "%s-%d", "out", 5);
		say(" fprintf=%d", put);
		int flushed = fflush(file);
		sent = flushed == 0 && put > 0;
		say(" fflush=");
		say_received(scene, result(flushed) < 0 ? -1 : put);
	}
	say(" fileno=%d", fileno(file) >= 0);
	errno = 0;
	result(fclose(file));
	/* Bytes to nobody bring an error, which may come later. */
	for (int i = 0; i < 1000 && sent && scene->peer < 0 && !(events_of(scene->socket) & (POLLERR | POLLHUP)); i++)
		usleep(100);
	done(scene);
}

static void run_dprintf(struct scene *scene, long b, long c)
{
	(void)b, (void)c;
	errno = 0;
	say_received(scene, result(dprintf(scene->socket, "%d-%s", 7, "x")));
}

/* The same by libc's syscall(). */
static void run_syscall(struct scene *scene, long kind, long b)
{
	char got[20];
	int fd = scene->socket, value = 0;
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof name, four = 4;
	struct pollfd one = { fd, POLLIN | POLLOUT, 0 };
	struct iovec vector = { "abc", 3 };
	struct msghdr msg = { NULL, 0, &vector, 1, NULL, 0, 0 };
	(void)b;
	switch (kind) {
	case 0: result(syscall(SYS_recvfrom, fd, got, 4L, 0L, NULL, NULL)); break;
	case 1: say_received(scene, result(syscall(SYS_sendto, fd, "abc", 3L, MSG_NOSIGNAL, NULL, 0L))); break;
	case 2: result(syscall(SYS_read, fd, got, 4L)); break;
	case 3: say_received(scene, result(syscall(SYS_write, fd, "abc", 3L))); break;
	case 4: result(syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &value, &four)); say(" %d", value); break;
	case 5: result(syscall(SYS_getsockname, fd, &name, &len)); say_address(scene, "name", &name, len); break;
	case 6: result(syscall(SYS_poll, &one, 1L, 0L)); say_events("events", one.revents); break;
	case 7: say_received(scene, result(syscall(SYS_sendmsg, fd, &msg, 0L))); break;
	case 8: result(syscall(SYS_shutdown, fd, SHUT_RDWR)); break;
	case 9: say(" %d", syscall(SYS_getpid) == getpid()); break;
	case 10: {
		int made = syscall(SYS_socket, scene->family, scene->type, 0);
		say(" made=%d", made >= 0);
		result(getsockopt(made, SOL_SOCKET, SO_DOMAIN, &value, &four));
		say(" %d", value == scene->family);
		result(syscall(SYS_close, made));
		result(fcntl(made, F_GETFD));
		break;
	}
	case 11: result(syscall(9999, 1, 2, 3)); break;
	}
}

#define FCNTL(command, argument) { "fcntl(" #command ", " #argument ")", ANY | BASIC, run_fcntl, command, argument }
#define LO(request) { "ioctl(" #request ", lo)", ANY | BASIC, run_ioctl_lo, request, 0 }, \
		    { "ioctl(" #request ", none0)", ANY | BASIC, run_ioctl_lo, request, 1 }

static const struct call CALLS[] = {
	FCNTL(F_GETFL, 0), FCNTL(F_SETFL, 0), FCNTL(F_SETFL, O_NONBLOCK), FCNTL(F_SETFL, O_NONBLOCK | O_APPEND),
	FCNTL(F_SETFL, O_ASYNC), FCNTL(F_GETFD, 0), FCNTL(F_SETFD, FD_CLOEXEC), FCNTL(F_GETSIG, 0),
	FCNTL(F_SETSIG, 10), FCNTL(F_SETSIG, 100), FCNTL(F_GETOWN, 0), FCNTL(F_GETPIPE_SZ, 0),
	FCNTL(F_GET_SEALS, 0), FCNTL(F_GETLEASE, 0), FCNTL(999, 0),
	{ "fcntl(F_DUPFD, 300)", ANY | BASIC, run_fcntl_dup, F_DUPFD, 300 },
	{ "fcntl(F_DUPFD_CLOEXEC, 300)", ANY | BASIC, run_fcntl_dup, F_DUPFD_CLOEXEC, 300 },
	{ "fcntl(F_DUPFD, -1)", ANY | BASIC, run_fcntl_dup, F_DUPFD, -1 },
	{ "F_SETOWN", ANY | BASIC, run_owner, 0, 0 },
	{ "F_SETOWN_EX", ANY | BASIC, run_owner, 1, 0 },
	{ "FIOSETOWN", ANY | BASIC, run_owner, 2, 0 },
	{ "SIOCSPGRP", ANY | BASIC, run_owner, 3, 0 },
	{ "F_SETOWN no process", ANY | BASIC, run_owner, 4, 0 },
	{ "SIGURG", TCP | BASIC, run_signals, 0, 0 },
	{ "SIGIO by O_ASYNC", ANY | BASIC, run_signals, 1, 0 },
	{ "F_SETSIG by FIOASYNC", ANY | BASIC, run_signals, 2, 0 },
	{ "ioctl(FIONBIO, 1)", ANY | BASIC, run_ioctl_int, FIONBIO, 1 },
	{ "ioctl(FIONBIO, 0)", ANY | BASIC, run_ioctl_int, FIONBIO, 0 },
	{ "ioctl(FIOASYNC, 1)", ANY | BASIC, run_ioctl_int, FIOASYNC, 1 },
	{ "ioctl(FIOCLEX)", ANY | BASIC, run_ioctl_int, FIOCLEX, 0 },
	{ "ioctl(TCGETS)", ANY | BASIC, run_ioctl_int, 0x5401, 0 },
	{ "ioctl(12345)", ANY | BASIC, run_ioctl_int, 12345, 0 },
	{ "ioctl(FIONREAD, NULL)", ANY | BASIC, run_ioctl_null, FIONREAD, 0 },
	{ "ioctl(FIONBIO, NULL)", ANY | BASIC, run_ioctl_null, FIONBIO, 0 },
	{ "ioctl(SIOCOUTQ, NULL)", ANY | BASIC, run_ioctl_null, TIOCOUTQ, 0 },
	{ "ioctl(SIOCGIFFLAGS, NULL)", ANY | BASIC, run_ioctl_null, SIOCGIFFLAGS, 0 },
	LO(SIOCGIFFLAGS), LO(SIOCGIFADDR), LO(SIOCGIFNETMASK), LO(SIOCGIFBRDADDR), LO(SIOCGIFDSTADDR),
	LO(SIOCGIFHWADDR), LO(SIOCGIFMTU), LO(SIOCGIFINDEX), LO(SIOCGIFMETRIC), LO(SIOCGIFTXQLEN),
	{ "SIOCGIFCONF", ANY | BASIC, run_ifconf, 4096, 0 },
	{ "SIOCGIFCONF length", ANY | BASIC, run_ifconf, 0, 0 },
	{ "lseek(SEEK_SET)", ANY | BASIC, run_seek, SEEK_SET, 0 },
	{ "lseek(SEEK_CUR)", ANY | BASIC, run_seek, SEEK_CUR, 0 },
	{ "fstat", ANY | BASIC, run_stat, 0, 0 },
	{ "ftruncate", ANY | BASIC, run_file_call, 0, 0 },
	{ "fsync", ANY | BASIC, run_file_call, 1, 0 },
	{ "fdatasync", ANY | BASIC, run_file_call, 2, 0 },
	{ "isatty", ANY | BASIC, run_file_call, 3, 0 },
	{ "flock", ANY | BASIC, run_file_call, 4, 0 },
	{ "mmap", ANY | BASIC, run_file_call, 5, 0 },
	{ "posix_fadvise", ANY | BASIC, run_file_call, 6, 0 },
	{ "fallocate", ANY | BASIC, run_file_call, 7, 0 },
	{ "fchdir", ANY | BASIC, run_file_call, 8, 0 },
	{ "openat", ANY | BASIC, run_file_call, 9, 0 },
	{ "readahead", ANY | BASIC, run_file_call, 10, 0 },
	{ "sync_file_range", ANY | BASIC, run_file_call, 11, 0 },
	{ "dup", ANY, run_dup, 0, 0 },
	{ "dup2(500)", ANY, run_dup, 1, 0 },
	{ "dup3(500, O_CLOEXEC)", ANY, run_dup, 2, 0 },
	{ "dup2(itself)", ANY | BASIC, run_dup, 3, 0 },
	{ "dup3(itself)", ANY | BASIC, run_dup, 4, 0 },
	{ "dup2(-1)", ANY | BASIC, run_dup, 5, 0 },
	{ "dup3(bad flag)", ANY | BASIC, run_dup, 6, 0 },
	{ "close", ANY, run_close, 0, 0 },
	{ "close_range", ANY, run_close, 1, 0 },
	{ "close_range(CLOEXEC)", ANY | BASIC, run_close, 2, 0 },
	{ "close, SO_LINGER 0", TCP, run_linger, 0, 0 },
	{ "close, SO_LINGER 1", TCP, run_linger, 1, 0 },
	{ "close, SO_LINGER 1, bytes", TCP, run_linger, 1, 50000 },
	{ "close, SO_LINGER 1, full", TCP | BASIC, run_linger_full, 1, 0 },
	{ "close, SO_LINGER 1, full and shut", TCP | BASIC, run_linger_full, 1, 1 },
	{ "tee from", ANY | BASIC, run_tee, 0, 0 },
	{ "tee to", ANY | BASIC, run_tee, 1, 0 },
	{ "fdopen(r)", ANY, run_stdio, 0, 0 },
	{ "fdopen(w)", ANY, run_stdio, 1, 0 },
	{ "fdopen(r+)", ANY, run_stdio, 2, 0 },
	{ "fdopen(a)", ANY, run_stdio, 3, 0 },
	{ "fdopen(rb)", ANY | BASIC, run_stdio, 4, 0 },
	{ "fdopen(w+)", ANY | BASIC, run_stdio, 5, 0 },
	{ "dprintf", ANY, run_dprintf, 0, 0 },
	{ "syscall(recvfrom)", ANY, run_syscall, 0, 0 },
	{ "syscall(sendto)", ANY, run_syscall, 1, 0 },
	{ "syscall(read)", ANY, run_syscall, 2, 0 },
	{ "syscall(write)", ANY, run_syscall, 3, 0 },
	{ "syscall(getsockopt)", ANY, run_syscall, 4, 0 },
	{ "syscall(getsockname)", ANY, run_syscall, 5, 0 },
	{ "syscall(poll)", ANY, run_syscall, 6, 0 },
	{ "syscall(sendmsg)", ANY, run_syscall, 7, 0 },
	{ "syscall(shutdown)", ANY, run_syscall, 8, 0 },
	{ "syscall(getpid)", ANY | BASIC, run_syscall, 9, 0 },
	{ "syscall(socket)", ANY | BASIC, run_syscall, 10, 0 },
	{ "syscall(9999)", ANY | BASIC, run_syscall, 11, 0 },
};
const struct group FILES = { CALLS, COUNT(CALLS) };
