/* An epoll set that is made before a fork: children wait in it for connections, for bytes of an
 * inherited connection, for a pipe. The parent waits in it too. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                           \
	do {                                                                                  \
		if (!(what)) {                                                                \
			fprintf(stderr, "line %d: not so: %s (%m)\n", __LINE__, #what);       \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

static int set, listener, pipe_ends[2];
static struct sockaddr_in address = { .sin_family = AF_INET };

static int connected(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	return fd;
}

static void add(int fd, unsigned events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

static int next(void)
{
	struct epoll_event event;

	CHECK(epoll_wait(set, &event, 1, 20000) == 1);
	return event.data.fd;
}

/* The listener of several processes may be reported for a connection that is not there. */
static int next_but_listener(void)
{
	int fd = next();

	while (fd == listener) {
		CHECK(accept(listener, NULL, NULL) == -1 && errno == EAGAIN);
		fd = next();
	}
	return fd;
}

/* Each connection says which bytes it wants: it gets them back. */
static void serve(int connections)
{
	char bytes[64];
	ssize_t len;
	int fd;

	while (connections > 0) {
		fd = next();
		if (fd == listener) {
			fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
			/* Another process may have been faster. */
			if (fd >= 0)
				add(fd, EPOLLIN | EPOLLET);
			continue;
		}
		len = recv(fd, bytes, sizeof bytes, 0);
		CHECK(len > 0 && send(fd, bytes, len, 0) == len);
		CHECK(close(fd) == 0);
		connections--;
	}
}

static void ask(int times)
{
	char bytes[8];

	for (int at = 0; at < times; at++) {
		int fd = connected();

		CHECK(send(fd, "question", 8, 0) == 8);
		CHECK(recv(fd, bytes, 8, MSG_WAITALL) == 8 && memcmp(bytes, "question", 8) == 0);
		close(fd);
	}
}

static void end(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static pid_t fork_checked(void)
{
	pid_t child = fork();

	CHECK(child >= 0);
	return child;
}

int main(void)
{
	struct pollfd in_set;
	socklen_t size = sizeof address;
	int peer, stream;
	pid_t child;

	setlinebuf(stdout);
	set = epoll_create1(0);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	CHECK(listen(listener, 64) == 0 && pipe(pipe_ends) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	add(listener, EPOLLIN);
	add(pipe_ends[0], EPOLLIN);

	child = fork_checked();
	if (child == 0) {
		serve(20);
		_exit(0);
	}
	ask(20);
	end(child);
	puts("a child serves the listener of its parent's set");

	/* One that touches the set, but does not wait in it. */
	child = fork_checked();
	if (child == 0) {
		struct epoll_event event = { .events = EPOLLIN, .data.fd = listener };

		CHECK(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) == -1);
		CHECK(epoll_ctl(set, EPOLL_CTL_MOD, listener, &event) == 0);
		CHECK(close(set) == 0);
		_exit(0);
	}
	end(child);
	child = fork_checked();
	if (child == 0) {
		ask(20);
		_exit(0);
	}
	serve(20);
	end(child);
	puts("the parent serves afterwards");

	peer = connected();
	while (next() != listener)
		;
	stream = accept(listener, NULL, NULL);
	CHECK(stream >= 0);
	add(stream, EPOLLIN);
	child = fork_checked();
	if (child == 0) {
		char byte;

		in_set = (struct pollfd){ .fd = set, .events = POLLIN };
		CHECK(poll(&in_set, 1, 20000) == 1);
		CHECK(next_but_listener() == stream && recv(stream, &byte, 1, 0) == 1 && byte == 'a');
		CHECK(send(stream, "b", 1, 0) == 1);
		CHECK(next_but_listener() == pipe_ends[0] && read(pipe_ends[0], &byte, 1) == 1);
		_exit(0);
	}
	close(stream);
	CHECK(send(peer, "a", 1, 0) == 1);
	CHECK(recv(peer, &(char){ 0 }, 1, 0) == 1);
	CHECK(write(pipe_ends[1], "c", 1) == 1);
	end(child);
	puts("a child waits for a connection and a pipe");
	return 0;
}
