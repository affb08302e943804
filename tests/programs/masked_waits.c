/* Waits under a signal mask: ppoll, pselect, epoll_pwait and epoll_pwait2 on connected sockets.
 *
 * SIGUSR1 is blocked but for the mask of the waits. A second thread sends it, as fast as it can and
 * with pauses of all lengths, and only once for each wait. A wait that misses its signal would last
 * for ever: nothing else ends it. Then the limits of waits, masks that let nothing in, and a handler
 * that leaves the wait by siglongjmp. Prints a line for each way to wait. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                           \
	do {                                                                                  \
		if (!(what)) {                                                                \
			fprintf(stderr, "line %d: not so: %s (%m)\n", __LINE__, #what);       \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

#define ROUNDS 3000

static int stream, end, idle_pipe[2], set, mixed_set;
static sigset_t let_in, all_blocked;
static volatile sig_atomic_t handled, jumps;
static sigjmp_buf out;
static atomic_int round_of_waiter;
static pthread_t waiter;

static void handle(int signal)
{
	(void)signal;
	handled++;
	if (jumps)
		siglongjmp(out, 1);
}

/* A way to wait until the stream, or a pipe that nobody writes, has something to read. */
struct way {
	const char *name;
	int (*wait)(const struct timespec *limit, const sigset_t *mask);
	/* With no time left, is a pending signal EINTR? Not in epoll_pwait. */
	int looks_at_signals_at_once;
};

static int by_ppoll(const struct timespec *limit, const sigset_t *mask)
{
	struct pollfd one = { .fd = stream, .events = POLLIN };

	return ppoll(&one, 1, limit, mask);
}

static int by_mixed_ppoll(const struct timespec *limit, const sigset_t *mask)
{
	struct pollfd two[] = { { .fd = idle_pipe[0], .events = POLLIN },
				{ .fd = stream, .events = POLLIN } };

	return ppoll(two, 2, limit, mask);
}

static int by_pselect(const struct timespec *limit, const sigset_t *mask)
{
	fd_set read;

	FD_ZERO(&read);
	FD_SET(stream, &read);
	return pselect(stream + 1, &read, NULL, NULL, limit, mask);
}

static int by_epoll_pwait(const struct timespec *limit, const sigset_t *mask)
{
	struct epoll_event events[2];
	int millis = limit ? (int)(limit->tv_sec * 1000 + limit->tv_nsec / 1000000) : -1;

	return epoll_pwait(set, events, 2, millis, mask);
}

static int by_epoll_pwait2(const struct timespec *limit, const sigset_t *mask)
{
	struct epoll_event events[2];

	return epoll_pwait2(mixed_set, events, 2, limit, mask);
}

static const struct way ways[] = {
	{ "ppoll", by_ppoll, 1 },
	{ "ppoll with a pipe", by_mixed_ppoll, 1 },
	{ "pselect", by_pselect, 1 },
	{ "epoll_pwait", by_epoll_pwait, 0 },
	{ "epoll_pwait2 with a pipe", by_epoll_pwait2, 0 },
};

static void *send_signals(void *unused)
{
	int seen = 0;

	(void)unused;
	for (int round = 1; round <= ROUNDS; round++) {
		while (round_of_waiter < round)
			;
		/* All moments of the wait: its begin, its first steps, its sleep. */
		for (volatile int pause = round % 64 * (round % 7 == 0 ? 2000 : 40); pause > 0; pause--)
			;
		CHECK(pthread_kill(waiter, SIGUSR1) == 0);
		seen++;
	}
	return NULL;
}

static void hammer(const struct way *way)
{
	pthread_t sender;

	handled = 0;
	round_of_waiter = 0;
	CHECK(pthread_create(&sender, NULL, send_signals, NULL) == 0);
	for (int round = 1; round <= ROUNDS; round++) {
		round_of_waiter = round;
		CHECK(way->wait(NULL, &let_in) == -1 && errno == EINTR);
		CHECK(handled == round);
	}
	CHECK(pthread_join(sender, NULL) == 0);
}

static int is_blocked(void)
{
	sigset_t now;

	CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
	return sigismember(&now, SIGUSR1);
}

static void limits(const struct way *way)
{
	struct timespec none = { 0 }, little = { .tv_nsec = 5000000 };
	int result;

	/* Pending: not let in, then let in. */
	handled = 0;
	CHECK(raise(SIGUSR1) == 0);
	CHECK(way->wait(&little, &all_blocked) == 0 && handled == 0);
	CHECK(way->wait(&little, NULL) == 0 && handled == 0);
	CHECK(way->wait(&none, NULL) == 0 && handled == 0);
	result = way->wait(&none, &let_in);
	if (way->looks_at_signals_at_once)
		CHECK(result == -1 && errno == EINTR && handled == 1);
	else
		CHECK(result == 0 && handled == 0);
	handled = 0;
	CHECK(raise(SIGUSR1) == 0);
	CHECK(way->wait(&little, &let_in) == -1 && errno == EINTR && handled == 1);
	CHECK(way->wait(&little, &let_in) == 0 && handled == 1 && is_blocked());
	/* Something to read comes before signals. */
	CHECK(raise(SIGUSR1) == 0);
	CHECK(send(end, "x", 1, 0) == 1);
	CHECK(way->wait(NULL, &all_blocked) == 1);
	CHECK(way->wait(NULL, &let_in) == 1 && handled == 1);
	CHECK(recv(stream, &result, 1, 0) == 1);
	CHECK(way->wait(NULL, &let_in) == -1 && errno == EINTR && handled == 2);
}

static void leave_by_jump(const struct way *way)
{
	handled = 0;
	jumps = 1;
	for (volatile int round = 0; round < 20; round++) {
		CHECK(raise(SIGUSR1) == 0);
		if (sigsetjmp(out, 1) == 0) {
			way->wait(NULL, &let_in);
			CHECK(!"the handler has not run");
		}
		CHECK(handled == round + 1 && is_blocked());
	}
	jumps = 0;
	CHECK(send(end, "x", 1, 0) == 1);
	CHECK(way->wait(NULL, &let_in) == 1);
	CHECK(recv(stream, &(char){ 0 }, 1, 0) == 1);
}

static void connect_ends(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	CHECK(listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	end = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(end, (struct sockaddr *)&address, sizeof address) == 0);
	stream = accept(listener, NULL, NULL);
	CHECK(stream >= 0);
}

int main(void)
{
	struct sigaction action = { .sa_handler = handle };
	struct epoll_event in = { .events = EPOLLIN };

	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	waiter = pthread_self();
	sigfillset(&all_blocked);
	CHECK(pthread_sigmask(SIG_BLOCK, &all_blocked, NULL) == 0);
	sigfillset(&let_in);
	sigdelset(&let_in, SIGUSR1);
	connect_ends();
	CHECK(pipe(idle_pipe) == 0);
	set = epoll_create1(0);
	mixed_set = epoll_create1(0);
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, stream, &in) == 0);
	CHECK(epoll_ctl(mixed_set, EPOLL_CTL_ADD, stream, &in) == 0);
	CHECK(epoll_ctl(mixed_set, EPOLL_CTL_ADD, idle_pipe[0], &in) == 0);
	for (size_t at = 0; at < sizeof ways / sizeof *ways; at++) {
		hammer(&ways[at]);
		limits(&ways[at]);
		leave_by_jump(&ways[at]);
		printf("%s: no signal missed\n", ways[at].name);
	}
	return 0;
}
