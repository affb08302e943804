/* Socket calls of signal handlers, and how handlers are installed.
 *
 * `handler_calls ADDRESS PORT`: a handler that SIGALRM calls a thousand times a second writes to
 * and reads from a connection, while the program uses another one, opens and closes sockets, polls
 * and allocates memory. Both peers send each byte back.
 * `handler_calls actions`: what sigaction(2) and its relatives say and do.
 * `handler_calls interrupted`: recv(2) and signals that come at any moment of it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* sigset(3) and siginterrupt(3) are tested because old programs use them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define CHECK(what)                                                                           \
	do {                                                                                  \
		if (!(what)) {                                                                \
			fprintf(stderr, "line %d: not so: %s (%m)\n", __LINE__, #what);       \
			_exit(1);                                                             \
		}                                                                             \
	} while (0)

static struct sockaddr_in address = { .sin_family = AF_INET };

static int connected(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	return fd;
}

/* Sends `len` bytes that count on from `*next`, and reads them back. */
static void round_trip(int fd, unsigned *next, size_t len)
{
	unsigned char out[512], in[512];
	size_t done;
	ssize_t now;

	for (size_t at = 0; at < len; at++)
		out[at] = (unsigned char)(*next + at);
	for (done = 0; done < len; done += (size_t)now) {
		now = write(fd, out + done, len - done);
		if (now < 0 && errno == EINTR)
			now = 0;
		CHECK(now >= 0);
	}
	for (done = 0; done < len; done += (size_t)now) {
		now = read(fd, in + done, len - done);
		if (now < 0 && errno == EINTR)
			now = 0;
		else
			CHECK(now > 0);
	}
	CHECK(memcmp(out, in, len) == 0);
	*next += (unsigned)len;
}

static int from_handler;
static unsigned handler_next;
static volatile sig_atomic_t handled;

static void on_alarm(int signal)
{
	int before = errno;

	(void)signal;
	round_trip(from_handler, &handler_next, 16);
	handled++;
	errno = before;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void calls_in_handlers(void)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	struct pollfd one;
	unsigned next = 0;
	double end;
	char byte;
	int fd, main_fd = connected();

	from_handler = connected();
	round_trip(from_handler, &handler_next, 16);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
	for (end = seconds() + 3; seconds() < end;) {
		free(malloc(1 + next % 5000));
		round_trip(main_fd, &next, 1 + next % 300);
		fd = socket(AF_INET, SOCK_DGRAM, 0);
		CHECK(fd >= 0 && close(fd) == 0);
		one = (struct pollfd){ .fd = main_fd, .events = POLLIN };
		CHECK(poll(&one, 1, next % 16 == 0) == 0 || errno == EINTR);
		for (int at = 0; at < 50; at++) {
			CHECK(recv(main_fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
			CHECK(poll(&one, 1, 0) == 0 || errno == EINTR);
		}
	}
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	CHECK(handled > 10);
	round_trip(main_fd, &next, 100);
	puts("all bytes came back");
}

static volatile sig_atomic_t seen_value, seen_code, depth, deepest, usr2_blocked, usr1_blocked;
static sigjmp_buf out;

static void plain(int signal) { handled += signal; }
static void other(int signal) { handled -= signal; }

static void detailed(int signal, siginfo_t *info, void *context)
{
	sigset_t now;

	(void)context;
	CHECK(info->si_signo == signal && info->si_pid == getpid());
	seen_value = info->si_value.sival_int;
	seen_code = info->si_code;
	sigprocmask(SIG_BLOCK, NULL, &now);
	usr1_blocked = sigismember(&now, SIGUSR1);
	usr2_blocked = sigismember(&now, SIGUSR2);
}

static void deep(int signal)
{
	depth++;
	deepest = depth > deepest ? depth : deepest;
	if (depth < 3)
		raise(signal);
	depth--;
}

static void jump(int signal) { siglongjmp(out, signal); }

static const char *name(void (*handler)(int))
{
	return handler == SIG_DFL ? "default" : handler == SIG_IGN ? "ignore" :
	       handler == plain ? "plain" : handler == other ? "other" :
	       handler == deep ? "deep" : (void *)handler == (void *)detailed ? "detailed" : "?";
}

static void show(const char *what, int signal)
{
	struct sigaction now;

	CHECK(sigaction(signal, NULL, &now) == 0);
	printf("%s: %s flags %x usr1 %d usr2 %d\n", what, name(now.sa_handler),
	       (unsigned)now.sa_flags, sigismember(&now.sa_mask, SIGUSR1),
	       sigismember(&now.sa_mask, SIGUSR2));
}

static void actions(void)
{
	struct sigaction action = { .sa_sigaction = detailed, .sa_flags = SA_SIGINFO }, old;
	union sigval value = { .sival_int = 4711 };
	/* Some socket, so that the library is at work. */
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	show("at first", SIGUSR1);
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGUSR2);
	CHECK(sigaction(SIGUSR1, &action, &old) == 0);
	printf("before: %s\n", name(old.sa_handler));
	show("with details", SIGUSR1);
	CHECK(sigqueue(getpid(), SIGUSR1, value) == 0);
	printf("value %d code %d usr1 %d usr2 %d\n", seen_value, seen_code, usr1_blocked,
	       usr2_blocked);
	printf("signal: %s\n", name(signal(SIGUSR1, plain)));
	show("signal", SIGUSR1);
	raise(SIGUSR1);
	printf("signal: %s, handled %d\n", name(signal(SIGUSR1, other)), handled);
	CHECK(siginterrupt(SIGUSR1, 1) == 0);
	show("siginterrupt", SIGUSR1);
	raise(SIGUSR1);
	printf("sigset: %s, handled %d\n", name(sigset(SIGUSR1, plain)), handled);
	show("sigset", SIGUSR1);
	printf("sigset: %s\n", name(sigset(SIGUSR1, SIG_IGN)));
	printf("signal: %s\n", name(signal(SIGUSR1, SIG_DFL)));
	CHECK(signal(SIGKILL, plain) == SIG_ERR && errno == EINVAL);
	CHECK(sigaction(65, &action, NULL) == -1 && errno == EINVAL);
	action = (struct sigaction){ .sa_handler = plain, .sa_flags = (int)SA_RESETHAND };
	CHECK(sigaction(SIGURG, &action, NULL) == 0);
	show("once", SIGURG);
	raise(SIGURG);
	raise(SIGURG);
	printf("handled %d\n", handled);
	show("after it", SIGURG);
	action = (struct sigaction){ .sa_handler = deep, .sa_flags = SA_NODEFER };
	CHECK(sigaction(SIGUSR2, &action, &old) == 0);
	show("nested", SIGUSR2);
	raise(SIGUSR2);
	printf("deepest %d\n", deepest);
	CHECK(signal(SIGRTMAX, jump) == SIG_DFL);
	if (sigsetjmp(out, 1) == 0)
		raise(SIGRTMAX);
	else
		puts("jumped");
	CHECK(close(fd) == 0);
	/* Handlers are not inherited by programs; ignored signals are. */
	CHECK(fflush(stdout) == 0 && system("kill -USR2 $$; echo not here") != 0);
	show("after system", SIGINT);
}

static pthread_t receiver;
static atomic_int waits;

static void *signals(void *number)
{
	while (atomic_load(&waits) >= 0) {
		if (atomic_load(&waits) > 0)
			pthread_kill(receiver, (int)(long)number);
		usleep((useconds_t)(rand() % 60));
	}
	return NULL;
}

static void nothing(int signal) { (void)signal; }

static void interrupted(void)
{
	struct sigaction action = { .sa_handler = nothing };
	struct timeval limit = { 0, 200 };
	socklen_t len = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), stream, end, count, on = 1;
	pthread_t thread;
	char byte;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
	stream = connected();
	end = accept(listener, NULL, NULL);
	CHECK(end >= 0);
	/* Else each byte waits for the delayed acknowledgement of the one before. */
	CHECK(setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
	receiver = pthread_self();
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	action.sa_flags = SA_RESTART;
	CHECK(sigaction(SIGUSR2, &action, NULL) == 0);

	CHECK(pthread_create(&thread, NULL, signals, (void *)(long)SIGUSR1) == 0);
	for (count = 0; count < 5000; count++) {
		atomic_store(&waits, 1);
		CHECK(recv(stream, &byte, 1, 0) == -1 && errno == EINTR);
		atomic_store(&waits, 0);
	}
	atomic_store(&waits, -1);
	CHECK(pthread_join(thread, NULL) == 0);
	puts("without SA_RESTART: EINTR");

	atomic_store(&waits, 1);
	CHECK(pthread_create(&thread, NULL, signals, (void *)(long)SIGUSR2) == 0);
	for (count = 0; count < 5000; count++) {
		CHECK(send(end, "x", 1, 0) == 1);
		CHECK(recv(stream, &byte, 1, 0) == 1 && byte == 'x');
	}
	puts("with SA_RESTART: bytes");
	CHECK(setsockopt(stream, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
	for (count = 0; count < 1000; count++)
		CHECK(recv(stream, &byte, 1, 0) == -1 && (errno == EINTR || errno == EAGAIN));
	atomic_store(&waits, -1);
	CHECK(pthread_join(thread, NULL) == 0);
	puts("with a time limit: none");
	CHECK(close(stream) == 0 && close(end) == 0 && close(listener) == 0);
}

int main(int argc, char **argv)
{
	alarm(argc == 3 ? 0 : 60);
	if (argc == 3) {
		CHECK(inet_pton(AF_INET, argv[1], &address.sin_addr) == 1);
		address.sin_port = htons((uint16_t)atoi(argv[2]));
		calls_in_handlers();
	} else if (argc == 2 && strcmp(argv[1], "actions") == 0) {
		actions();
	} else if (argc == 2 && strcmp(argv[1], "interrupted") == 0) {
		interrupted();
	} else {
		return 2;
	}
	return 0;
}
