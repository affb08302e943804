/* Executes itself by execl, execlp and execle, without a fork, with a connection left open. Each
 * program sends on one end and receives from the other. argv: step, end, other end, then strings
 * that must come through unchanged, more than registers hold. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#define MORE "d", "e", "f", "g", "h", "i"

extern char **environ;

static void connect_ends(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	CHECK(listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(ends[0], (struct sockaddr *)&address, sizeof address) == 0);
	ends[1] = accept(listener, NULL, NULL);
	CHECK(ends[1] >= 0 && close(listener) == 0);
}

/* No such file: the call comes back, in a child of vfork too. */
static void fail(void)
{
	int status;
	pid_t child;

	CHECK(execl("/no/such/file", "a", "b", "c", MORE, (char *)NULL) == -1);
	CHECK(execlp("no-such-file", "a", "b", "c", MORE, (char *)NULL) == -1);
	CHECK(execle("/no/such/file", "a", "b", "c", MORE, (char *)NULL, environ) == -1);
	child = vfork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "test $# = 8", "0", "1", "2", MORE, (char *)NULL);
		_exit(9);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
	char *more[] = { MORE }, end[16], other[16], byte;
	/* The library's variables must be there in an environment that lacks them. */
	char *environment[] = { "MARK=yes", NULL };
	int ends[2], step = argc > 1 ? atoi(argv[1]) : 0;

	setlinebuf(stdout);
	if (step == 0) {
		connect_ends(ends);
		fail();
	} else {
		CHECK(argc == 10);
		for (int at = 0; at < 6; at++)
			CHECK(strcmp(argv[4 + at], more[at]) == 0);
		ends[0] = atoi(argv[2]);
		ends[1] = atoi(argv[3]);
	}
	CHECK(send(ends[0], "x", 1, 0) == 1);
	CHECK(recv(ends[1], &byte, 1, 0) == 1 && byte == 'x');
	printf("step %d: %s\n", step, getenv("MARK") ? "marked" : "as it was");
	snprintf(end, sizeof end, "%d", ends[1]);
	snprintf(other, sizeof other, "%d", ends[0]);
	switch (step) {
	case 0:
		execl("/proc/self/exe", "executed", "1", end, other, MORE, (char *)NULL);
		break;
	case 1:
		execlp("/proc/self/exe", "executed", "2", end, other, MORE, (char *)NULL);
		break;
	case 2:
		execle("/proc/self/exe", "executed", "3", end, other, MORE, (char *)NULL,
		       environment);
		break;
	default:
		return 0;
	}
	CHECK(!"executed");
}
