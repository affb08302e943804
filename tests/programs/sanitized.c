/* Threads that hand work to each other over sockets, and by nothing else. A sanitizer has nothing to
 * say about it. With an argument, a write reads beyond its buffer: AddressSanitizer ends it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                               \
	do {                                                      \
		if (!(what)) {                                    \
			printf("line %d: %s\n", __LINE__, #what); \
			exit(1);                                  \
		}                                                 \
	} while (0)

enum { ROUNDS = 200 };

static struct sockaddr_in address = {.sin_family = AF_INET};
static int listener;
/* The one whose turn it is has these. */
static int turns;
static char *text;
static int interrupted;

static void *serve(void *unused)
{
	struct epoll_event event = {.events = EPOLLIN};
	int set = epoll_create1(0), fd = -1;
	char byte;
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, listener, &event));
	for (int at = 0; at < ROUNDS;) {
		CHECK(epoll_wait(set, &event, 1, -1) == 1);
		if (fd < 0) {
			CHECK((fd = accept(listener, 0, 0)) >= 0);
			CHECK(!epoll_ctl(set, EPOLL_CTL_DEL, listener, 0));
			CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
			continue;
		}
		CHECK(recv(fd, &byte, 1, 0) == 1);
		turns++;
		free(text);
		text = malloc(64);
		snprintf(text, 64, "turn %d", turns);
		CHECK(send(fd, &byte, 1, 0) == 1);
		at++;
	}
	close(set);
	/* Whoever gets it closes it. */
	CHECK(write(fd, &fd, sizeof fd) == sizeof fd);
	return unused;
}

static void on_signal(int signal)
{
	(void)signal;
	__atomic_store_n(&interrupted, 1, __ATOMIC_SEQ_CST);
}

static void *wait_for_ever(void *fd)
{
	char byte;
	ssize_t got = read(*(int *)fd, &byte, 1);
	CHECK(got == 0 || (got == -1 && errno == EINTR));
	return 0;
}

static void interrupt(int fd)
{
	pthread_t thread;
	struct sigaction action = {.sa_handler = on_signal};
	CHECK(!sigaction(SIGUSR1, &action, 0));
	CHECK(!pthread_create(&thread, 0, wait_for_ever, &fd));
	while (!__atomic_load_n(&interrupted, __ATOMIC_SEQ_CST)) {
		pthread_kill(thread, SIGUSR1);
		usleep(1000);
	}
	CHECK(!shutdown(fd, SHUT_RD) && !pthread_join(thread, 0));
}

int main(int arguments, char **words)
{
	socklen_t len = sizeof address;
	pthread_t server;
	char byte = 'x';
	int fd, other, status;
	(void)words;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(!bind(listener, (void *)&address, len) && !listen(listener, 1));
	CHECK(!getsockname(listener, (void *)&address, &len));
	CHECK(!pthread_create(&server, 0, serve, 0));
	CHECK((fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(!connect(fd, (void *)&address, len));
	for (int at = 0; at < ROUNDS; at++) {
		turns++;
		CHECK(write(fd, &byte, 1) == 1 && read(fd, &byte, 1) == 1);
		CHECK(atoi(text + 5) == turns);
	}
	CHECK(recv(fd, &other, sizeof other, MSG_WAITALL) == sizeof other);
	CHECK(!pthread_join(server, 0));
	pid_t child = fork();
	if (child == 0) {
		CHECK(write(other, "y", 1) == 1);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(read(fd, &byte, 1) == 1 && byte == 'y');
	interrupt(fd);
	free(text);
	if (arguments > 1) {
		char *small = malloc(10);
		memset(small, 1, 10);
		CHECK(write(fd, small, atoi(words[1])) > 0);
		free(small);
	}
	close(fd);
	close(other);
	close(listener);
	printf("all\n");
	return 0;
}
