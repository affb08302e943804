/* POSIX AIO on sockets and on a file: in order, together in lists, with all kinds of notice, and
 * cancelled. The last line is "all". */
#define _GNU_SOURCE
#include <aio.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                 \
	do {                                                        \
		if (!(what)) {                                      \
			printf("line %d: %s\n", __LINE__, #what);   \
			exit(1);                                    \
		}                                                   \
	} while (0)

static sem_t told;
static volatile sig_atomic_t value;

static void on_signal(int signal, siginfo_t *info, void *unused)
{
	(void)signal, (void)unused;
	if (info->si_code == SI_ASYNCIO)
		value = info->si_value.sival_int;
	sem_post(&told);
}

static void on_notice(union sigval with)
{
	value = with.sival_int;
	sem_post(&told);
}

static void wait_told(int expected)
{
	while (sem_wait(&told))
		CHECK(errno == EINTR);
	CHECK(value == expected);
}

static struct aiocb request(int fd, void *buffer, size_t len, int operation)
{
	struct aiocb new;
	memset(&new, 0, sizeof new);
	new.aio_fildes = fd;
	new.aio_buf = buffer;
	new.aio_nbytes = len;
	new.aio_lio_opcode = operation;
	new.aio_sigevent.sigev_notify = SIGEV_NONE;
	return new;
}

static int suspend(struct aiocb *one)
{
	const struct aiocb *list[] = {0, one};
	while (aio_suspend(list, 2, 0))
		if (errno != EINTR)
			return -1;
	return 0;
}

static void pair(int kind, int fds[2])
{
	struct sockaddr_in one = {.sin_family = AF_INET}, two;
	socklen_t len = sizeof one;
	one.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	two = one;
	fds[0] = socket(AF_INET, kind, 0);
	if (kind == SOCK_DGRAM) {
		fds[1] = socket(AF_INET, kind, 0);
		CHECK(!bind(fds[0], (void *)&one, len) && !bind(fds[1], (void *)&two, len));
		CHECK(!getsockname(fds[0], (void *)&one, &len));
		CHECK(!getsockname(fds[1], (void *)&two, &len));
		CHECK(!connect(fds[0], (void *)&two, len) && !connect(fds[1], (void *)&one, len));
		return;
	}
	int listener = socket(AF_INET, kind, 0);
	CHECK(!bind(listener, (void *)&one, len) && !listen(listener, 1));
	CHECK(!getsockname(listener, (void *)&one, &len) && !connect(fds[0], (void *)&one, len));
	CHECK((fds[1] = accept(listener, 0, 0)) >= 0);
	close(listener);
}

static void transfers(int kind)
{
	int fds[2];
	char bytes[16] = "";
	pair(kind, fds);
	struct aiocb reads[2] = {request(fds[1], bytes, 5, 0), request(fds[1], bytes + 5, 5, 0)};
	/* They begin before there is anything to be read, and are done in their order. */
	CHECK(!aio_read(&reads[0]) && !aio_read(&reads[1]));
	CHECK(aio_error(&reads[0]) == EINPROGRESS);
	struct timespec soon = {0, 1000};
	const struct aiocb *list[] = {&reads[0]};
	CHECK(aio_suspend(list, 1, &soon) == -1 && errno == EAGAIN);
	struct aiocb writes[2] = {request(fds[0], "hello", 5, 0), request(fds[0], "world", 5, 0)};
	CHECK(!aio_write(&writes[0]) && !aio_write(&writes[1]));
	for (int at = 0; at < 2; at++) {
		CHECK(!suspend(&writes[at]) && !suspend(&reads[at]));
		CHECK(aio_error(&writes[at]) == 0 && aio_return(&writes[at]) == 5);
		CHECK(aio_error(&reads[at]) == 0 && aio_return(&reads[at]) == 5);
	}
	CHECK(!memcmp(bytes, "helloworld", 10));
	/* A synchronised socket is an error, and so is a priority that none has. */
	CHECK(!aio_fsync(O_SYNC, &reads[0]) && !suspend(&reads[0]) && aio_error(&reads[0]) == EINVAL);
	reads[0].aio_reqprio = -1;
	CHECK(aio_read(&reads[0]) == -1 && errno == EINVAL);
	/* What is cancelled is over; what is over cannot be cancelled. */
	reads[0] = request(fds[1], bytes, 5, 0);
	CHECK(!aio_read(&reads[1]) && aio_cancel(fds[1], &reads[1]) != AIO_ALLDONE);
	if (aio_error(&reads[1]) == EINPROGRESS) {
		/* The C library's thread has begun. */
		CHECK(write(fds[0], "x", 1) == 1 && !suspend(&reads[1]));
	} else {
		CHECK(aio_error(&reads[1]) == ECANCELED && aio_return(&reads[1]) == -1);
	}
	CHECK(aio_cancel(fds[1], &reads[1]) == AIO_ALLDONE && aio_cancel(fds[1], 0) == AIO_ALLDONE);
	close(fds[0]);
	close(fds[1]);
}

static void large(void)
{
	/* More than any queue takes at once. */
	enum { SIZE = 32 << 20 };
	int fds[2];
	pair(SOCK_STREAM, fds);
	char *from = malloc(SIZE), *to = malloc(SIZE);
	for (int at = 0; at < SIZE; at++)
		from[at] = at * 31 >> 8;
	struct aiocb writing = request(fds[0], from, SIZE, 0);
	CHECK(!aio_write(&writing));
	CHECK(recv(fds[1], to, SIZE, MSG_WAITALL) == SIZE && !memcmp(from, to, SIZE));
	CHECK(!suspend(&writing) && aio_return(&writing) == SIZE);
	/* The end of the stream, and an error. */
	struct aiocb reading = request(fds[1], to, 5, 0);
	close(fds[0]);
	CHECK(!aio_read(&reading) && !suspend(&reading) && aio_return(&reading) == 0);
	CHECK(!shutdown(fds[1], SHUT_WR));
	writing = request(fds[1], from, 5, 0);
	CHECK(!aio_write(&writing) && !suspend(&writing) && aio_error(&writing) == EPIPE);
	close(fds[1]);
	free(from);
	free(to);
}

static void notices(void)
{
	int fds[2];
	char bytes[8];
	pair(SOCK_STREAM, fds);
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	CHECK(!sigaction(SIGRTMIN, &action, 0));
	struct aiocb one = request(fds[1], bytes, 2, 0);
	one.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
	one.aio_sigevent.sigev_signo = SIGRTMIN;
	one.aio_sigevent.sigev_value.sival_int = 41;
	CHECK(!aio_read(&one) && write(fds[0], "ab", 2) == 2);
	wait_told(41);
	CHECK(aio_error(&one) == 0 && aio_return(&one) == 2);
	one.aio_sigevent.sigev_notify = SIGEV_THREAD;
	one.aio_sigevent.sigev_notify_function = on_notice;
	one.aio_sigevent.sigev_notify_attributes = 0;
	one.aio_sigevent.sigev_value.sival_int = 42;
	CHECK(!aio_read(&one) && write(fds[0], "ab", 2) == 2);
	wait_told(42);
	close(fds[0]);
	close(fds[1]);
}

static void lists(void)
{
	int fds[2];
	char bytes[8] = "", text[8] = "";
	FILE *file = tmpfile();
	pair(SOCK_DGRAM, fds);
	struct aiocb out = request(fds[0], "out", 3, LIO_WRITE);
	struct aiocb nothing = request(-1, 0, 0, LIO_NOP);
	struct aiocb store = request(fileno(file), "file", 4, LIO_WRITE);
	struct aiocb in = request(fds[1], bytes, 3, LIO_READ);
	struct aiocb *all[] = {&out, 0, &nothing, &store, &in};
	CHECK(!lio_listio(LIO_WAIT, all, 5, 0));
	CHECK(aio_return(&out) == 3 && aio_return(&store) == 4 && aio_return(&in) == 3);
	CHECK(!memcmp(bytes, "out", 3) && pread(fileno(file), text, 4, 0) == 4);
	/* A failure of one is the list's, and leaves the others. */
	store = request(1000, "file", 4, LIO_WRITE);
	in = request(fds[1], bytes, 3, LIO_READ);
	out = request(fds[0], "two", 3, LIO_WRITE);
	CHECK(lio_listio(LIO_WAIT, all, 5, 0) == -1 && errno == EIO && aio_return(&in) == 3);
	/* One event for all. */
	store = request(fileno(file), "FILE", 4, LIO_WRITE);
	in = request(fds[1], bytes, 3, LIO_READ);
	out = request(fds[0], "end", 3, LIO_WRITE);
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_value.sival_int = 43};
	event.sigev_notify_function = on_notice;
	CHECK(!lio_listio(LIO_NOWAIT, all, 5, &event));
	wait_told(43);
	CHECK(aio_return(&out) == 3 && aio_return(&store) == 4 && aio_return(&in) == 3);
	CHECK(lio_listio(7, all, 5, 0) == -1 && errno == EINVAL);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	CHECK(!sem_init(&told, 0, 0));
	transfers(SOCK_STREAM);
	transfers(SOCK_DGRAM);
	large();
	notices();
	lists();
	printf("all\n");
	fflush(stdout);
	_exit(0);
}
