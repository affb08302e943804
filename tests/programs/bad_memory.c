/* Pointers to memory that is not there, or not for this access: EFAULT from every socket call, and
 * no signal. The last line is "all". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHECK(what)                                                                     \
	do {                                                                            \
		errno = 0;                                                              \
		if (!(what)) {                                                          \
			printf("line %d: %s, errno %d\n", __LINE__, #what, errno);      \
			exit(1);                                                        \
		}                                                                       \
	} while (0)
#define REFUSED(what) CHECK((what) == -1 && errno == EFAULT)

enum { PAGE = 4096 };

static struct sockaddr_in own = {.sin_family = AF_INET};
static int stream, peer, datagram, listener;

static void refused(void *bad)
{
	char bytes[16];
	socklen_t len = sizeof own;
	int value = 1, set = epoll_create1(0);
	struct iovec part = {.iov_base = bad, .iov_len = 8};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};
	struct timespec soon = {0, 0};
	struct pollfd poller = {.fd = stream, .events = POLLIN};
	struct ifconf interfaces = {.ifc_len = 1000, .ifc_req = bad};

	REFUSED(bind(datagram, bad, len));
	REFUSED(connect(datagram, bad, len));
	REFUSED(send(stream, bad, 8, 0));
	REFUSED(write(stream, bad, 8));
	REFUSED(sendto(datagram, bad, 8, 0, (void *)&own, len));
	REFUSED(sendto(datagram, bytes, 8, 0, bad, len));
	REFUSED(writev(stream, &part, 1));
	REFUSED(writev(stream, bad, 1));
	REFUSED(sendmsg(stream, &message, 0));
	REFUSED(sendmsg(stream, bad, 0));
	REFUSED(sendmmsg(stream, bad, 1, 0));
	message.msg_iov = bad;
	REFUSED(sendmsg(stream, &message, 0));
	message = (struct msghdr){.msg_name = bad, .msg_namelen = len};
	REFUSED(sendmsg(datagram, &message, 0));
	message = (struct msghdr){.msg_name = &own, .msg_namelen = len, .msg_control = bad, .msg_controllen = 32};
	REFUSED(sendmsg(datagram, &message, 0));

	CHECK(write(peer, "12345678", 8) == 8 && poll(&poller, 1, -1) == 1);
	REFUSED(recv(stream, bad, 8, 0));
	REFUSED(read(stream, bad, 8));
	REFUSED(readv(stream, &part, 1));
	REFUSED(readv(stream, bad, 1));
	REFUSED(recvmsg(stream, bad, 0));
	REFUSED(getsockname(stream, bad, &len));
	REFUSED(getpeername(stream, (void *)&own, bad));
	REFUSED(getsockopt(stream, SOL_SOCKET, SO_TYPE, bad, &len));
	REFUSED(getsockopt(stream, SOL_SOCKET, SO_TYPE, &value, bad));
	REFUSED(setsockopt(stream, SOL_SOCKET, SO_KEEPALIVE, bad, sizeof value));
	REFUSED(ioctl(stream, FIONREAD, bad));
	REFUSED(ioctl(stream, SIOCGIFFLAGS, bad));
	REFUSED(ioctl(stream, SIOCGIFCONF, bad));
	REFUSED(ioctl(stream, SIOCGIFCONF, &interfaces));
	REFUSED(epoll_ctl(set, EPOLL_CTL_ADD, stream, bad));
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, stream, &event));
	REFUSED(epoll_wait(set, bad, 1, -1));
	REFUSED(poll(bad, 1, 0));
	REFUSED(select(stream + 1, bad, 0, 0, (void *)&soon));
	close(set);

	/* Nothing was lost. */
	CHECK(recv(stream, bytes, 8, MSG_WAITALL) == 8 && !memcmp(bytes, "12345678", 8));
}

int main(void)
{
	socklen_t len = sizeof own;
	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!bind(listener, (void *)&own, len) && !listen(listener, 1));
	CHECK(!getsockname(listener, (void *)&own, &len));
	peer = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(peer, (void *)&own, len) && (stream = accept(listener, 0, 0)) >= 0);
	datagram = socket(AF_INET, SOCK_DGRAM, 0);

	char *place = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(place != MAP_FAILED);
	/* Used before, so that it is known as good. */
	CHECK(send(peer, place + PAGE, 8, 0) == 8 && recv(stream, place + PAGE, 8, MSG_WAITALL) == 8);
	CHECK(!mprotect(place + PAGE, PAGE, PROT_NONE));
	refused(place + PAGE);
	CHECK(!munmap(place + PAGE, PAGE));
	refused(place + PAGE);
	refused((void *)8);
	refused((void *)-4096);
	refused((void *)0x7ffffffff000);
	/* Memory that is only to be read can be sent, and not received into. */
	CHECK(!mprotect(place, PAGE, PROT_READ));
	CHECK(send(peer, place, 8, 0) == 8);
	REFUSED(recv(stream, place, 8, MSG_WAITALL));
	CHECK(recv(stream, place + 2 * PAGE, 8, MSG_WAITALL) == 8);
	/* The end of a buffer that is not there is no matter for what is shorter. */
	CHECK(send(peer, "12345678", 8, 0) == 8);
	CHECK(recv(stream, place + 4 * PAGE - 8, 8, MSG_WAITALL) == 8);
	CHECK(send(peer, "12345678", 8, 0) == 8);
	char *last = place + 4 * PAGE - 8;
	CHECK(!munmap(place + 3 * PAGE, PAGE));
	REFUSED(recv(stream, last, 8, 0));
	CHECK(recv(stream, place + 3 * PAGE - 8, PAGE, 0) == 8);
	printf("all\n");
	return 0;
}
