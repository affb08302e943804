/* Threads that are cancelled in socket calls, and what they leave behind.
 *
 * For each call: a thread that sleeps in it is cancelled; a thread with a request pending enters it
 * and ends before it does anything; a thread that has disabled cancellation sleeps on. Cleanup
 * handlers run. Afterwards other threads use the same socket. Prints a line for each call. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHECK(what)                                                                           \
	do {                                                                                  \
		if (!(what)) {                                                                \
			fprintf(stderr, "line %d: not so: %s (%m)\n", __LINE__, #what);       \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

static int listener, stream, end, set, empty_set, idle_pipe[2];
static struct sockaddr_in address = { .sin_family = AF_INET };
static char byte;
static char much[8 << 20];
static atomic_int cleaned;
static sem_t ready, go;

static void by_recv(void) { CHECK(recv(stream, &byte, 1, 0) == 1); }
static void by_read(void) { CHECK(read(stream, &byte, 1) == 1); }

static void by_recvmsg(void)
{
	struct iovec one = { &byte, 1 };
	struct msghdr message = { .msg_iov = &one, .msg_iovlen = 1 };

	CHECK(recvmsg(stream, &message, 0) == 1);
}

static void by_recv_all(void)
{
	CHECK(recv(stream, &byte, 1, MSG_WAITALL) == 1);
}

static void by_poll(void)
{
	struct pollfd one = { .fd = stream, .events = POLLIN };

	CHECK(poll(&one, 1, -1) == 1 && recv(stream, &byte, 1, 0) == 1);
}

static void by_mixed_poll(void)
{
	struct pollfd two[] = { { .fd = idle_pipe[0], .events = POLLIN },
				{ .fd = stream, .events = POLLIN } };

	CHECK(poll(two, 2, 3600 * 1000) == 1 && recv(stream, &byte, 1, 0) == 1);
}

static void by_select(void)
{
	fd_set read;

	FD_ZERO(&read);
	FD_SET(stream, &read);
	CHECK(select(stream + 1, &read, NULL, NULL, NULL) == 1);
	CHECK(recv(stream, &byte, 1, 0) == 1);
}

static void by_epoll_wait(void)
{
	struct epoll_event event;

	CHECK(epoll_wait(set, &event, 1, -1) == 1 && recv(stream, &byte, 1, 0) == 1);
}

static void by_accept(void)
{
	int fd = accept(listener, NULL, NULL);

	CHECK(fd >= 0);
	close(fd);
}

/* A set that has only a pipe, in a program with sockets. */
static void by_empty_set(void)
{
	struct epoll_event event;

	CHECK(epoll_wait(empty_set, &event, 1, -1) == 1 && read(idle_pipe[0], &byte, 1) == 1);
}

/* The peer has not read for so long that a send must wait. */
static void by_send(void)
{
	size_t sent = 0;
	ssize_t now;

	while (sent < sizeof much) {
		now = send(stream, much, sizeof much - sent, 0);
		CHECK(now > 0);
		sent += (size_t)now;
	}
}

static void send_byte(void) { CHECK(send(end, "x", 1, 0) == 1); }
static void write_pipe(void) { CHECK(write(idle_pipe[1], "x", 1) == 1); }

static void connect_one(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	close(fd);
}

static void read_all(void)
{
	static char buffer[1 << 16];

	/* All that was sent, also by the thread that was cancelled. */
	for (;;) {
		struct pollfd one = { .fd = end, .events = POLLIN };

		if (poll(&one, 1, 300) == 0)
			return;
		CHECK(recv(end, buffer, sizeof buffer, 0) > 0);
	}
}

static const struct call {
	const char *name;
	void (*wait)(void);
	/* Ends the wait of a thread that is not cancelled. */
	void (*satisfy)(void);
	/* Once it is cancelled after a second of sleep. */
	int long_sleep;
} calls[] = {
	{ "recv", by_recv, send_byte, 1 },
	{ "read", by_read, send_byte, 0 },
	{ "recvmsg", by_recvmsg, send_byte, 0 },
	{ "recv of all", by_recv_all, send_byte, 0 },
	{ "poll", by_poll, send_byte, 1 },
	{ "poll with a pipe", by_mixed_poll, send_byte, 0 },
	{ "select", by_select, send_byte, 0 },
	{ "epoll_wait", by_epoll_wait, send_byte, 0 },
	{ "epoll_wait on a pipe", by_empty_set, write_pipe, 0 },
	{ "accept", by_accept, connect_one, 1 },
	{ "send", by_send, read_all, 1 },
};

static void clean(void *unused)
{
	(void)unused;
	cleaned++;
	/* A cleanup handler may use sockets. */
	CHECK(send(stream, "", 0, 0) == 0);
}

struct order {
	const struct call *call;
	int disabled, enters_late;
	pthread_t thread;
	pid_t number;
};

static void *wait_in(void *argument)
{
	struct order *order = argument;

	if (order->disabled || order->enters_late)
		CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
	order->number = gettid();
	pthread_cleanup_push(clean, NULL);
	sem_post(&ready);
	if (order->enters_late) {
		while (sem_wait(&go) != 0)
			;
		CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
	}
	order->call->wait();
	/* After a call that was satisfied, with the request pending, it ends here. */
	if (order->disabled) {
		CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
		send(stream, "y", 0, 0);
		CHECK(!"a cancellation point");
	}
	pthread_cleanup_pop(0);
	return NULL;
}

static void wait_until_asleep(pid_t number)
{
	char path[64], line[256], *name_end;
	int times = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)number);
	while (times < 5) {
		file = fopen(path, "r");
		CHECK(file && fgets(line, sizeof line, file));
		fclose(file);
		name_end = strrchr(line, ')');
		times = name_end && name_end[2] == 'S' ? times + 1 : 0;
		usleep(1000);
	}
}

static void begin(struct order *order)
{
	CHECK(pthread_create(&order->thread, NULL, wait_in, order) == 0);
	while (sem_wait(&ready) != 0)
		;
}

static void *end_of(struct order *order)
{
	void *result;

	CHECK(pthread_join(order->thread, &result) == 0);
	return result;
}

static void try_call(const struct call *call)
{
	struct order order = { .call = call };
	int before = cleaned;

	/* At once, in the first steps of the call, asleep, and long asleep. */
	for (int round = 0; round < 30; round++) {
		begin(&order);
		if (round >= 20)
			wait_until_asleep(order.number);
		else
			for (volatile int pause = round * 3000; pause > 0; pause--)
				;
		if (round == 29 && call->long_sleep)
			usleep(1300000);
		CHECK(pthread_cancel(order.thread) == 0);
		CHECK(end_of(&order) == PTHREAD_CANCELED && cleaned == ++before);
	}
	/* Several, of which one is cancelled. */
	struct order both[2] = { order, order };
	begin(&both[0]);
	begin(&both[1]);
	wait_until_asleep(both[0].number);
	wait_until_asleep(both[1].number);
	CHECK(pthread_cancel(both[0].thread) == 0);
	CHECK(end_of(&both[0]) == PTHREAD_CANCELED && cleaned == ++before);
	call->satisfy();
	CHECK(end_of(&both[1]) == NULL && cleaned == before);
	/* Disabled. */
	order.disabled = 1;
	begin(&order);
	wait_until_asleep(order.number);
	CHECK(pthread_cancel(order.thread) == 0);
	usleep(20000);
	CHECK(cleaned == before);
	call->satisfy();
	CHECK(end_of(&order) == PTHREAD_CANCELED && cleaned == ++before);
	/* Pending: the call takes nothing. */
	order = (struct order){ .call = call, .enters_late = 1 };
	begin(&order);
	CHECK(pthread_cancel(order.thread) == 0);
	if (call->satisfy != read_all)
		call->satisfy();
	sem_post(&go);
	CHECK(end_of(&order) == PTHREAD_CANCELED && cleaned == ++before);
	order = (struct order){ .call = call };
	begin(&order);
	if (call->satisfy == read_all)
		read_all();
	CHECK(end_of(&order) == NULL && cleaned == before);
	if (call->satisfy == read_all)
		read_all();
	printf("%s: cancelled %d times\n", call->name, before);
}

static void *close_it(void *argument)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	sem_post(&ready);
	while (sem_wait(&go) != 0)
		;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	close(*(int *)argument);
	return NULL;
}

/* With a request pending close(2) ends the thread, and the descriptor stays open. */
static void try_close(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t thread;
	void *result;

	CHECK(pthread_create(&thread, NULL, close_it, &fd) == 0);
	while (sem_wait(&ready) != 0)
		;
	CHECK(pthread_cancel(thread) == 0);
	sem_post(&go);
	CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
	CHECK(fcntl(fd, F_GETFD) >= 0 && close(fd) == 0);
	puts("close: not done");
}

int main(void)
{
	socklen_t size = sizeof address;
	struct epoll_event in = { .events = EPOLLIN };
	/* Buffers that the stack enlarges by itself may take all that by_send has to send. */
	int buffer = 1 << 17;

	listener = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) == 0);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	CHECK(listen(listener, 8) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	end = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(setsockopt(end, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) == 0);
	CHECK(connect(end, (struct sockaddr *)&address, sizeof address) == 0);
	stream = accept(listener, NULL, NULL);
	CHECK(stream >= 0 && pipe(idle_pipe) == 0);
	set = epoll_create1(0);
	empty_set = epoll_create1(0);
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, stream, &in) == 0);
	CHECK(epoll_ctl(empty_set, EPOLL_CTL_ADD, idle_pipe[0], &in) == 0);
	CHECK(sem_init(&ready, 0, 0) == 0 && sem_init(&go, 0, 0) == 0);
	for (size_t at = 0; at < sizeof calls / sizeof *calls; at++)
		try_call(&calls[at]);
	try_close();
	return 0;
}
