/* The states that a socket can be in. */
#include "table.h"
#include <sys/time.h>

static int make_socket(struct scene *scene)
{
	int fd = socket(scene->family, scene->type, 0);
	CHECK(fd >= 0);
	return fd;
}

static int bound(struct scene *scene)
{
	struct sockaddr_storage address = loopback(scene->family, 0);
	int fd = make_socket(scene);
	CHECK(bind(fd, (void *)&address, length_of(scene)) == 0);
	return fd;
}

static void fresh(struct scene *scene)
{
	scene->socket = make_socket(scene);
}

static void closed(struct scene *scene)
{
	int fd = make_socket(scene);
	/* A number that nothing else gets meanwhile. */
	scene->socket = fcntl(fd, F_DUPFD, 450);
	close(fd);
	close(scene->socket);
}

static void named(struct scene *scene)
{
	scene->socket = bound(scene);
}

static struct sockaddr_storage name_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof address;
	CHECK(getsockname(fd, (void *)&address, &len) == 0);
	return address;
}

static int listener(struct scene *scene)
{
	int fd = bound(scene);
	CHECK(listen(fd, 4) == 0);
	return fd;
}

static void listening(struct scene *scene)
{
	scene->socket = listener(scene);
}

/* A listener with a connection that can be accepted. */
static void waiting(struct scene *scene)
{
	listening(scene);
	struct sockaddr_storage to = name_of(scene->socket);
	scene->peer = make_socket(scene);
	CHECK(connect(scene->peer, (void *)&to, length_of(scene)) == 0);
	scene->to = name_of(scene->peer);
	wait_for(scene->socket, POLLIN);
}

static void connected(struct scene *scene)
{
	scene->listener = listener(scene);
	scene->to = name_of(scene->listener);
	scene->socket = make_socket(scene);
	CHECK(connect(scene->socket, (void *)&scene->to, length_of(scene)) == 0);
	wait_for(scene->listener, POLLIN);
	scene->peer = accept(scene->listener, NULL, NULL);
	CHECK(scene->peer >= 0);
	/* So that small writes of the table leave at once. */
	int on = 1;
	CHECK(setsockopt(scene->peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
	CHECK(setsockopt(scene->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
}

static void from_peer(struct scene *scene, const char *bytes)
{
	CHECK(send(scene->peer, bytes, strlen(bytes), 0) == (long)strlen(bytes));
	wait_for(scene->socket, POLLIN);
}

static void with_data(struct scene *scene)
{
	connected(scene);
	from_peer(scene, "abcdefghij");
}

static void after_fin(struct scene *scene)
{
	connected(scene);
	CHECK(shutdown(scene->peer, SHUT_WR) == 0);
	wait_for(scene->socket, POLLIN | POLLRDHUP);
}

static void data_and_fin(struct scene *scene)
{
	with_data(scene);
	CHECK(shutdown(scene->peer, SHUT_WR) == 0);
	wait_for(scene->socket, POLLIN | POLLRDHUP);
}

/* The peer is closed: the next send meets a reset. */
static void peer_closed(struct scene *scene)
{
	connected(scene);
	close(scene->peer);
	scene->peer = -1;
	wait_for(scene->socket, POLLIN | POLLRDHUP);
}

static void read_shut(struct scene *scene)
{
	connected(scene);
	CHECK(shutdown(scene->socket, SHUT_RD) == 0);
}

static void data_read_shut(struct scene *scene)
{
	with_data(scene);
	CHECK(shutdown(scene->socket, SHUT_RD) == 0);
}

static void write_shut(struct scene *scene)
{
	connected(scene);
	CHECK(shutdown(scene->socket, SHUT_WR) == 0);
	wait_for(scene->peer, POLLIN | POLLRDHUP);
	await_acknowledgement(scene->socket);
}

static void both_shut(struct scene *scene)
{
	write_shut(scene);
	CHECK(shutdown(scene->peer, SHUT_WR) == 0);
	wait_for(scene->socket, POLLIN | POLLHUP);
}

static void reset_by_peer(struct scene *scene)
{
	connected(scene);
	struct linger now = { 1, 0 };
	CHECK(setsockopt(scene->peer, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
	close(scene->peer);
	scene->peer = -1;
	wait_for(scene->socket, POLLERR | POLLHUP);
}

static void data_and_reset(struct scene *scene)
{
	with_data(scene);
	struct linger now = { 1, 0 };
	CHECK(setsockopt(scene->peer, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
	close(scene->peer);
	scene->peer = -1;
	wait_for(scene->socket, POLLERR | POLLHUP);
}

/* The peer has closed and resets what comes too late. */
static void reset_by_closed(struct scene *scene)
{
	CHECK(shutdown(scene->peer, SHUT_WR) == 0);
	wait_for(scene->socket, POLLIN | POLLRDHUP);
	struct linger now = { 1, 0 };
	CHECK(setsockopt(scene->peer, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
	close(scene->peer);
	scene->peer = -1;
	wait_for(scene->socket, POLLERR | POLLHUP);
}

static void fin_and_reset(struct scene *scene)
{
	connected(scene);
	reset_by_closed(scene);
}

static void data_fin_and_reset(struct scene *scene)
{
	with_data(scene);
	reset_by_closed(scene);
}

static void write_shut_and_reset(struct scene *scene)
{
	write_shut(scene);
	struct linger now = { 1, 0 };
	CHECK(setsockopt(scene->peer, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
	close(scene->peer);
	scene->peer = -1;
	wait_for(scene->socket, POLLERR | POLLHUP);
}

static void refused(struct scene *scene)
{
	scene->socket = bound(scene);
	struct sockaddr_storage to = loopback(scene->family, closed_port(scene));
	fcntl(scene->socket, F_SETFL, O_NONBLOCK);
	CHECK(connect(scene->socket, (void *)&to, length_of(scene)) == -1);
	wait_for(scene->socket, POLLERR | POLLHUP);
}

static void urgent(struct scene *scene)
{
	connected(scene);
	CHECK(send(scene->peer, "abc!", 4, MSG_OOB) == 4);
	wait_for(scene->socket, POLLIN | POLLPRI);
}

static void joined(struct scene *scene)
{
	scene->socket = bound(scene);
	scene->peer = bound(scene);
	struct sockaddr_storage own = name_of(scene->socket);
	scene->to = name_of(scene->peer);
	CHECK(connect(scene->socket, (void *)&scene->to, length_of(scene)) == 0);
	CHECK(connect(scene->peer, (void *)&own, length_of(scene)) == 0);
}

static void datagrams(struct scene *scene)
{
	joined(scene);
	CHECK(send(scene->peer, "0123456789", 10, 0) == 10);
	CHECK(send(scene->peer, "second", 6, 0) == 6);
	/* A third to another socket: when it is there, so are the two before it. */
	int other = bound(scene);
	struct sockaddr_storage to = name_of(other);
	CHECK(sendto(scene->peer, "x", 1, 0, (void *)&to, length_of(scene)) == 1);
	wait_for(other, POLLIN);
	close(other);
	wait_for(scene->socket, POLLIN);
}

/* Not connected, with a datagram. */
static void receiver(struct scene *scene)
{
	scene->socket = bound(scene);
	scene->peer = bound(scene);
	struct sockaddr_storage own = name_of(scene->socket);
	scene->to = name_of(scene->peer);
	CHECK(sendto(scene->peer, "0123456789", 10, 0, (void *)&own, length_of(scene)) == 10);
	wait_for(scene->socket, POLLIN);
}

static void empty_datagram(struct scene *scene)
{
	joined(scene);
	CHECK(send(scene->peer, "", 0, 0) == 0);
	wait_for(scene->socket, POLLIN);
}

static void unreachable(struct scene *scene)
{
	scene->socket = bound(scene);
	struct sockaddr_storage to = loopback(scene->family, closed_port(scene));
	CHECK(connect(scene->socket, (void *)&to, length_of(scene)) == 0);
	CHECK(send(scene->socket, "x", 1, 0) == 1);
	wait_for(scene->socket, POLLERR);
}

/* The same, with the error queue. */
static void unreachable_recverr(struct scene *scene)
{
	scene->socket = bound(scene);
	struct sockaddr_storage to = loopback(scene->family, closed_port(scene));
	int on = 1, six = scene->family == AF_INET6;
	scene->to = to;
	setsockopt(scene->socket, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_RECVERR : IP_RECVERR, &on,
		   sizeof on);
	CHECK(sendto(scene->socket, "x", 1, 0, (void *)&to, length_of(scene)) == 1);
	struct pollfd soon = { scene->socket, 0, 0 };
	(void)poll(&soon, 1, 10000);
}

static void limit_time(struct scene *scene)
{
	struct timeval limit = { 0, 4000 };
	CHECK(setsockopt(scene->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
}

static void blocking(struct scene *scene)
{
	connected(scene);
	limit_time(scene);
}

static void blocking_data(struct scene *scene)
{
	with_data(scene);
	limit_time(scene);
}

static void blocking_fin(struct scene *scene)
{
	data_and_fin(scene);
	limit_time(scene);
}

static void blocking_datagrams(struct scene *scene)
{
	datagrams(scene);
	limit_time(scene);
}

static void blocking_joined(struct scene *scene)
{
	joined(scene);
	limit_time(scene);
}

const struct state STATES[] = {
	{ "new", TCP | BASIC, fresh },
	{ "closed", TCP | CLOSED, closed },
	{ "bound", TCP, named },
	{ "listening", TCP | BASIC, listening },
	{ "to accept", TCP, waiting },
	{ "connected", TCP | BASIC, connected },
	{ "data", TCP, with_data },
	{ "fin", TCP, after_fin },
	{ "data+fin", TCP, data_and_fin },
	{ "peer closed", TCP, peer_closed },
	{ "read shut", TCP, read_shut },
	{ "data, read shut", TCP, data_read_shut },
	{ "write shut", TCP, write_shut },
	{ "both shut", TCP, both_shut },
	{ "reset", TCP, reset_by_peer },
	{ "data+reset", TCP, data_and_reset },
	{ "fin+reset", TCP, fin_and_reset },
	{ "data+fin+reset", TCP, data_fin_and_reset },
	{ "write shut, reset", TCP, write_shut_and_reset },
	{ "refused", TCP, refused },
	{ "urgent", TCP, urgent },
	{ "blocking", TCP | BLOCKING, blocking },
	{ "blocking data", TCP | BLOCKING, blocking_data },
	{ "blocking data+fin", TCP | BLOCKING, blocking_fin },
	{ "new", UDP | BASIC, fresh },
	{ "closed", UDP | CLOSED, closed },
	{ "bound", UDP, named },
	{ "joined", UDP | BASIC, joined },
	{ "datagrams", UDP, datagrams },
	{ "receiver", UDP, receiver },
	{ "empty", UDP, empty_datagram },
	{ "unreachable", UDP, unreachable },
	{ "unreachable, RECVERR", UDP, unreachable_recverr },
	{ "blocking", UDP | BLOCKING, blocking_joined },
	{ "blocking datagrams", UDP | BLOCKING, blocking_datagrams },
};
const size_t STATE_COUNT = COUNT(STATES);
