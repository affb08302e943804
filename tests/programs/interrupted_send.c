/* Blocking sends that signals interrupt. argv[1] is the address of interrupted_peer.py, argv[2] its
 * port. Prints a line for each case. The peer reads nothing before the last case.
 *
 * SIGUSR1 has a handler with SA_RESTART, SIGUSR2 has one without. With a third argument SIGUSR2 has
 * its handler only until the last case.
 *
 * A second thread sends the signals, and only while the kernel says that the first thread sleeps. A
 * signal just before a sleep ends no call, so the second thread repeats it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

#define CHECK(what)                                                                           \
	do {                                                                                  \
		if (!(what)) {                                                                \
			fprintf(stderr, "line %d: not so: %s (%m)\n", __LINE__, #what);       \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

/* More than all buffers on the way hold. */
#define ASKED (64 << 20)
/* The byte at position p of the stream is p % PERIOD. */
#define PERIOD 251

static char data[ASKED + PERIOD];
static size_t sent;
static struct sockaddr_in peer = { .sin_family = AF_INET };
static pthread_t sender;
static pid_t sender_tid;
static atomic_int handled;
static atomic_int sending;

struct order {
	int signal;
	/* 0: until the call returns. Else so many times; then the peer is told to read. */
	int times;
};

static void count(int signal)
{
	(void)signal;
	handled++;
}

static void handle(int signal, int flags)
{
	struct sigaction action = { .sa_handler = count, .sa_flags = flags };

	CHECK(sigaction(signal, &action, NULL) == 0);
}

static int connected(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0);
	return fd;
}

/* Does the first thread sleep? */
static int sleeps(void)
{
	char path[64], line[256], *name_end;
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)sender_tid);
	file = fopen(path, "r");
	CHECK(file && fgets(line, sizeof line, file));
	fclose(file);
	name_end = strrchr(line, ')');
	return name_end && name_end[2] == 'S';
}

static void *interrupt(void *argument)
{
	const struct order *order = argument;
	int before;

	while (sending && (order->times == 0 || handled < order->times)) {
		usleep(1000);
		if (!sending || !sleeps())
			continue;
		before = handled;
		CHECK(pthread_kill(sender, order->signal) == 0);
		while (handled == before)
			usleep(1000);
	}
	if (order->times && handled == order->times)
		connected(); /* open until this process ends */
	return NULL;
}

/* send(2) of `len` bytes while `order` is carried out. */
static ssize_t send_under(int fd, size_t len, struct order order)
{
	pthread_t other;
	ssize_t result;
	int error;

	handled = 0;
	sending = 1;
	CHECK(pthread_create(&other, NULL, interrupt, &order) == 0);
	result = send(fd, data + sent % PERIOD, len, 0);
	error = errno;
	sending = 0;
	CHECK(pthread_join(other, NULL) == 0);
	if (result > 0)
		sent += result;
	errno = error;
	return result;
}

/* Prints what came of a send of ASKED bytes. */
static void print(const char *title, ssize_t result)
{
	const char *count = result == 0 ? "nothing" : result < ASKED ? "part" : "all";

	CHECK(handled > 0);
	printf("%s: %s\n", title, result >= 0 ? count : errno == EINTR ? "EINTR" : strerror(errno));
}

/* Sends until nothing is taken: buffers on the way may get some more room for a while. */
static ssize_t send_until_full(int fd, struct order order)
{
	ssize_t result;

	while ((result = send_under(fd, ASKED, order)) > 0)
		;
	return result;
}

int main(int argc, char **argv)
{
	struct timeval hour = { .tv_sec = 3600 }, no_limit = { 0 };
	struct order restarts = { .signal = SIGUSR1 }, interrupts = { .signal = SIGUSR2 };
	struct order thrice = { .signal = SIGUSR1, .times = 3 };
	ssize_t result;
	size_t i;
	int fd;

	CHECK(argc >= 3 && inet_pton(AF_INET, argv[1], &peer.sin_addr) == 1);
	peer.sin_port = htons(atoi(argv[2]));
	for (i = 0; i < sizeof data; i++)
		data[i] = (char)(i % PERIOD);
	handle(SIGUSR1, SA_RESTART);
	handle(SIGUSR2, 0);
	setlinebuf(stdout);
	sender = pthread_self();
	sender_tid = gettid();

	/* Each of the first two sends finds empty buffers: it has a connection of its own. */
	print("some bytes taken, SIGUSR2", send_under(connected(), ASKED, interrupts));
	sent = 0;
	fd = connected();
	print("some bytes taken, SIGUSR1", send_under(fd, ASKED, restarts));
	print("nothing taken, SIGUSR2", send_until_full(fd, interrupts));
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &hour, sizeof hour) == 0);
	print("nothing taken, SIGUSR1, time limit", send_until_full(fd, restarts));
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &no_limit, sizeof no_limit) == 0);
	if (argc > 3)
		signal(SIGUSR2, SIG_DFL);
	/* A byte that finds room before the third signal shows nothing. */
	do
		result = send_under(fd, 1, thrice);
	while (result == 1 && handled < 3);
	CHECK(result == 1);
	puts("nothing taken, SIGUSR1: goes on");
	CHECK(shutdown(fd, SHUT_WR) == 0);
	/* The peer closes when it has read all. */
	CHECK(recv(fd, data, sizeof data, 0) == 0);
	printf("sent %zu\n", sent);
	return 0;
}
