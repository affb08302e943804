/* A client of an echo server through packaged calls: argv[1] is its address, argv[2] its port.
 * Checks every promise of tasuki.h that a program can see, and says "all well". */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tasuki.h"

#define CHECK(what)                                                                     \
	do {                                                                            \
		if (!(what)) {                                                          \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what);      \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

static struct tsk *t;

/* One call, waited for. */
static int call(struct tsk_sqe sqe)
{
	struct tsk_cqe cqe;

	sqe.user_data = 4711;
	CHECK(tsk_submit(t, &sqe, 1) == 1);
	CHECK(tsk_wait(t, &cqe, 1, 1, NULL) == 1);
	CHECK(cqe.user_data == 4711 && cqe.flags == 0);
	return cqe.res;
}

static uint64_t ptr(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void together(void)
{
	struct tsk_sqe sqes[300];
	struct tsk_cqe cqes[300];
	int n, i, taken = 0;

	memset(sqes, 0, sizeof sqes);
	for (i = 0; i < 300; i++)
		sqes[i].user_data = i;
	CHECK(tsk_submit(t, sqes, 300) == 300);
	while (taken < 300) {
		n = tsk_wait(t, cqes, 1, 7, NULL);
		CHECK(n >= 1 && n <= 7);
		for (i = 0; i < n; i++)
			CHECK(cqes[i].res == 0 && cqes[i].user_data == (uint64_t)taken + i);
		taken += n;
	}
	CHECK(tsk_wait(t, cqes, 1, 7, NULL) == 0); /* nothing is outstanding */
}

static void mistakes(void)
{
	struct tsk_sqe bad = { .opcode = 99 }, flag = { .flags = 128 };
	struct tsk *none;

	CHECK(tsk_submit(t, &bad, 1) == -EINVAL);
	CHECK(tsk_submit(t, &flag, 1) == -EINVAL);
	CHECK(tsk_submit(t, NULL, 1) == -EFAULT);
	CHECK(tsk_open(&none, "/nowhere") == -ENOENT);
	CHECK(tsk_cancel(t, 12345) == -ENOENT);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_LISTEN, .sock = 77 }) == -EBADF);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_SOCKET, .sock = AF_UNIX, .len = SOCK_STREAM }) ==
	      -EAFNOSUPPORT);
}

static void cancelling(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct timespec soon = { .tv_nsec = 20 * 1000 * 1000 };
	struct tsk_sqe accept = { .opcode = TSK_OP_ACCEPT, .user_data = 5 };
	struct tsk_cqe cqe;
	int listener = call((struct tsk_sqe){
		.opcode = TSK_OP_SOCKET, .sock = AF_INET, .len = SOCK_STREAM });

	CHECK(listener >= 0);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_BIND, .sock = listener, .addr = ptr(&any),
				     .len = sizeof any }) == 0);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_LISTEN, .sock = listener, .len = 5 }) == 0);
	accept.sock = listener;
	accept.flags = TSK_SQE_NONBLOCK;
	CHECK(call(accept) == -EAGAIN);
	accept.flags = 0;
	CHECK(tsk_submit(t, &accept, 1) == 1);
	CHECK(tsk_wait(t, &cqe, 1, 1, &soon) == -ETIME);
	CHECK(tsk_cancel(t, 5) == 0);
	CHECK(tsk_wait(t, &cqe, 1, 1, NULL) == 1);
	CHECK(cqe.user_data == 5 && cqe.res == -ECANCELED);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_CLOSE, .sock = listener }) == 0);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_CLOSE, .sock = listener }) == -EBADF);
}

static void echo(const char *address, const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) }, seen;
	socklen_t len = sizeof seen;
	char sent[4096], got[4096];
	int one = 1, value = 0, i, n, all = 0;
	int s = call((struct tsk_sqe){ .opcode = TSK_OP_SOCKET, .sock = AF_INET, .len = SOCK_STREAM });

	CHECK(s >= 0 && inet_pton(AF_INET, address, &to.sin_addr) == 1);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_CONNECT, .sock = s, .addr = ptr(&to),
				     .len = sizeof to }) == 0);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_GETPEERNAME, .sock = s, .addr = ptr(&seen),
				     .addr2 = ptr(&len) }) == 0);
	CHECK(len == sizeof seen && seen.sin_port == to.sin_port &&
	      seen.sin_addr.s_addr == to.sin_addr.s_addr);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_SETSOCKOPT, .sock = s, .level = IPPROTO_TCP,
				     .optname = TCP_NODELAY, .addr = ptr(&one), .len = sizeof one }) == 0);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_GETSOCKOPT, .sock = s, .level = IPPROTO_TCP,
				     .optname = TCP_NODELAY, .addr = ptr(&value),
				     .len = sizeof value }) == sizeof value);
	CHECK(value != 0);
	for (i = 0; i < (int)sizeof sent; i++)
		sent[i] = (char)(i * 7);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_SEND, .sock = s, .addr = ptr(sent),
				     .len = sizeof sent }) == sizeof sent);
	while (all < (int)sizeof sent) {
		n = call((struct tsk_sqe){ .opcode = TSK_OP_RECV, .sock = s, .addr = ptr(got + all),
					   .len = sizeof got - all });
		CHECK(n > 0);
		all += n;
	}
	CHECK(memcmp(sent, got, sizeof sent) == 0);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_SHUTDOWN, .sock = s, .len = SHUT_WR }) == 0);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_RECV, .sock = s, .addr = ptr(got),
				     .len = sizeof got }) == 0);
	CHECK(call((struct tsk_sqe){ .opcode = TSK_OP_CLOSE, .sock = s }) == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	CHECK(tsk_open(&t, NULL) == 0);
	CHECK(tsk_client(t) >= 0);
	together();
	mistakes();
	cancelling();
	echo(argv[1], argv[2]);
	CHECK(tsk_close(t) == 0);
	puts("all well");
	return 0;
}
