/* All socket calls in a thread whose stack is as small as a thread's may be, and in a handler on the
 * smallest alternate stack. Below the stack nothing is mapped. With an argument: prints how many
 * bytes each call took. The last line is "all". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAINT 0x5A
#define CHECK(what)                                          \
	do {                                                 \
		if (!(what)) {                               \
			static const char text[] = #what "\n"; \
			write(2, text, sizeof text - 1);     \
			_exit(1);                            \
		}                                            \
	} while (0)

static char *stack;
static const char *names[64];
static size_t used[64];
static int count;
static struct sockaddr_in loopback = {.sin_family = AF_INET};
static struct sockaddr_in own;

/* Notes how deep the stack was used since the last time. */
__attribute__((noinline)) static void note(const char *name)
{
	volatile char here = 0;
	char *at = stack;
	uintptr_t end = (uintptr_t)&here + here;
	while (*at == PAINT)
		at++;
	names[count] = name;
	used[count++] = end > (uintptr_t)at ? end - (uintptr_t)at : 0;
	for (at = stack; (uintptr_t)at < end - 256; at++)
		*(volatile char *)at = PAINT;
}

#define CALL(name, what)     \
	do {                 \
		CHECK(what); \
		note(name);  \
	} while (0)

static void streams(void)
{
	char bytes[8];
	socklen_t len = sizeof own;
	int on = 1, listener, one, other, set;
	struct epoll_event event = {.events = EPOLLIN};
	CALL("socket", (listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CALL("bind", bind(listener, (void *)&loopback, sizeof loopback) == 0);
	CALL("listen", listen(listener, 8) == 0);
	CALL("getsockname", getsockname(listener, (void *)&own, &len) == 0);
	CALL("socket", (one = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CALL("setsockopt", setsockopt(one, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) == 0);
	CALL("connect", connect(one, (void *)&own, sizeof own) == 0);
	CALL("getpeername", getpeername(one, (void *)&own, &len) == 0);
	CALL("accept", (other = accept(listener, 0, 0)) >= 0);
	CALL("write", write(one, "12", 2) == 2);
	struct pollfd poller = {.fd = other, .events = POLLIN};
	CALL("poll", poll(&poller, 1, -1) == 1);
	CALL("read", read(other, bytes, 2) == 2);
	CALL("epoll_create1", (set = epoll_create1(0)) >= 0);
	CALL("epoll_ctl", epoll_ctl(set, EPOLL_CTL_ADD, other, &event) == 0);
	CALL("send", send(one, "34", 2, 0) == 2);
	CALL("epoll_wait", epoll_wait(set, &event, 1, -1) == 1);
	CALL("recv", recv(other, bytes, 2, 0) == 2);
	struct iovec part = {.iov_base = bytes, .iov_len = 2};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	CALL("sendmsg", sendmsg(one, &message, 0) == 2);
	fd_set readers;
	FD_ZERO(&readers);
	FD_SET(other, &readers);
	CALL("select", select(other + 1, &readers, 0, 0, 0) == 1);
	CALL("recvmsg", recvmsg(other, &message, 0) == 2);
	CALL("writev", writev(one, &part, 1) == 2);
	CALL("readv", readv(other, &part, 1) == 2);
	CALL("fcntl", fcntl(one, F_SETFL, O_NONBLOCK) == 0);
	CALL("ioctl", ioctl(one, FIONREAD, &on) == 0 && on == 0);
	CALL("read, nothing there", read(one, bytes, 2) == -1);
	len = sizeof on;
	CALL("getsockopt", getsockopt(one, SOL_SOCKET, SO_ERROR, &on, &len) == 0);
	int again;
	CALL("dup", (again = dup(one)) >= 0);
	CALL("close of a duplicate", close(again) == 0);
	pid_t child;
	CALL("fork", (child = fork()) >= 0);
	if (child == 0) {
		CALL("socket taken up", write(other, "5", 1) == 1);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CALL("poll, moved", (poller.fd = one, poll(&poller, 1, -1) == 1));
	CALL("read", read(one, bytes, 1) == 1);
	CALL("socket taken back", write(other, "6", 1) == 1);
	CALL("shutdown", shutdown(one, SHUT_WR) == 0);
	CALL("close", close(one) == 0 && close(other) == 0 && close(set) == 0);
	CALL("close of a listener", close(listener) == 0);
}

static void datagrams(void)
{
	char bytes[8];
	int one;
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	CALL("socket", (one = socket(AF_INET, SOCK_DGRAM, 0)) >= 0);
	CALL("bind", bind(one, (void *)&loopback, sizeof loopback) == 0);
	CHECK(getsockname(one, (void *)&own, &len) == 0);
	CALL("sendto", sendto(one, "78", 2, 0, (void *)&own, sizeof own) == 2);
	CALL("recvfrom", recvfrom(one, bytes, 8, 0, (void *)&from, &len) == 2);
	CALL("close", close(one) == 0);
}

static void *run(void *unused)
{
	(void)unused;
	note("begin");
	streams();
	datagrams();
	return 0;
}

static void on_signal(int unused)
{
	(void)unused;
	datagrams();
}

static char *room(size_t size)
{
	char *all = mmap(0, size + 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(all != MAP_FAILED && mprotect(all + 65536, size, PROT_READ | PROT_WRITE) == 0);
	memset(all + 65536, PAINT, size);
	return all + 65536;
}

int main(int arguments, char **words)
{
	(void)words;
	pthread_attr_t attributes;
	pthread_t thread;
	size_t size = 16 << 10;
	loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	stack = room(size);
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setstack(&attributes, stack, size) == 0);
	CHECK(pthread_create(&thread, &attributes, run, 0) == 0);
	CHECK(pthread_join(thread, 0) == 0);
	size = sysconf(_SC_SIGSTKSZ);
	stack = room(size);
	stack_t alternate = {.ss_sp = stack, .ss_size = size};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	CHECK(sigaltstack(&alternate, 0) == 0 && sigaction(SIGUSR1, &action, 0) == 0);
	CHECK(raise(SIGUSR1) == 0);
	for (int at = 0; arguments > 1 && at < count; at++)
		printf("%6zu %s\n", used[at], names[at]);
	printf("all\n");
	return 0;
}
