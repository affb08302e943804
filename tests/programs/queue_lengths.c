/* FIONREAD, SIOCOUTQ and SIOCOUTQNSD of a stream: many small writes that nobody reads, a receiver
 * that is full, a FIN. Prints what each call counts, in terms of what was written. */
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(what)                                                                           \
	do {                                                                                  \
		if (!(what)) {                                                                \
			fprintf(stderr, "line %d: not so: %s (%m)\n", __LINE__, #what);       \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

/* More than any queue of descriptors holds. */
#define WRITES 700

static int count(int fd, unsigned long request)
{
	int bytes = -1;

	CHECK(ioctl(fd, request, &bytes) == 0);
	return bytes;
}

static void until(int fd, unsigned long request, int wanted)
{
	for (int tries = 0; count(fd, request) != wanted; tries++) {
		if (tries == 5000) {
			fprintf(stderr, "%lx: %d, not %d\n", request, count(fd, request), wanted);
			exit(1);
		}
		usleep(1000);
	}
}

static void connect_ends(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	CHECK(listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(count(ends[0], SIOCOUTQ) == 0 && count(ends[0], SIOCOUTQNSD) == 0);
	CHECK(connect(ends[0], (struct sockaddr *)&address, sizeof address) == 0);
	CHECK(setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
	ends[1] = accept(listener, NULL, NULL);
	CHECK(ends[1] >= 0 && close(listener) == 0);
}

int main(void)
{
	static char buffer[1 << 20];
	int ends[2], total = 0, unread, fin;
	ssize_t now;

	connect_ends(ends);
	for (int at = 1; at <= WRITES; at++) {
		CHECK(send(ends[0], buffer, 3, 0) == 3);
		total += 3;
		/* Segments of their own. */
		if (at % 50 == 0)
			usleep(2000);
	}
	until(ends[0], SIOCOUTQ, 0);
	until(ends[1], FIONREAD, total);
	CHECK(count(ends[0], SIOCOUTQNSD) == 0);
	CHECK(recv(ends[1], buffer, 1000, MSG_WAITALL) == 1000);
	until(ends[1], FIONREAD, total - 1000);
	printf("%d unread of %d\n", count(ends[1], FIONREAD), total);
	CHECK(recv(ends[1], buffer, total - 1000, MSG_WAITALL) == total - 1000);
	until(ends[1], FIONREAD, 0);

	/* Until the receiver takes no more. */
	total = 0;
	for (int idle = 0; idle < 20;) {
		now = send(ends[0], buffer, sizeof buffer, MSG_DONTWAIT);
		total += now > 0 ? (int)now : 0;
		idle = now > 0 ? 0 : idle + 1;
		usleep(5000);
	}
	unread = count(ends[1], FIONREAD);
	until(ends[0], SIOCOUTQ, total - unread);
	CHECK(count(ends[0], SIOCOUTQNSD) > 0);
	CHECK(count(ends[0], SIOCOUTQNSD) <= total - unread);
	puts("unread, unacknowledged and unsent bytes are all bytes");
	CHECK(shutdown(ends[0], SHUT_WR) == 0);
	until(ends[0], SIOCOUTQ, total - unread + 1);
	fin = count(ends[0], SIOCOUTQNSD);
	CHECK(fin > 1 && fin <= total - unread + 1);
	puts("a FIN counts one");
	while ((now = recv(ends[1], buffer, sizeof buffer, 0)) > 0)
		total -= (int)now;
	CHECK(now == 0 && total == 0);
	until(ends[0], SIOCOUTQ, 0);
	CHECK(count(ends[0], SIOCOUTQNSD) == 0 && count(ends[1], FIONREAD) == 0);
	puts("all is acknowledged");
	return 0;
}
