/* Calls about addresses and connections. */
#include "table.h"
#include <stddef.h>

enum { SAME, SHORT, LONG, UNIX, UNSPEC, UNSPEC_2, PORT_0, NO_POINTER, OTHER_FAMILY, CLOSED_PORT, OWN, FOREIGN, WILDCARD, HUGE_LEN, USED };

static socklen_t name_for(struct scene *scene, long kind, struct sockaddr_storage *name)
{
	socklen_t len = length_of(scene), own_len = sizeof *name;
	*name = scene->to.ss_family ? scene->to : loopback(scene->family, closed_port(scene));
	switch (kind) {
	case SHORT:
		return 7;
	case LONG:
		return sizeof *name;
	case UNIX:
		name->ss_family = AF_UNIX;
		break;
	case UNSPEC:
		name->ss_family = AF_UNSPEC;
		break;
	case UNSPEC_2:
		name->ss_family = AF_UNSPEC;
		return sizeof name->ss_family;
	case PORT_0:
		set_port(name, 0);
		break;
	case OTHER_FAMILY:
		*name = loopback(scene->family == AF_INET ? AF_INET6 : AF_INET, 9);
		return sizeof(struct sockaddr_in6);
	case CLOSED_PORT:
		*name = loopback(scene->family, closed_port(scene));
		break;
	case OWN:
		getsockname(scene->socket, (void *)name, &own_len);
		break;
	case FOREIGN: /* TEST-NET-1 and the documentation prefix */
		*name = loopback(scene->family, closed_port(scene));
		if (scene->family == AF_INET)
			((struct sockaddr_in *)name)->sin_addr.s_addr = htonl(0xc0000201);
		else
			((struct sockaddr_in6 *)name)->sin6_addr.s6_addr[0] = 0x20;
		break;
	case WILDCARD:
		*name = loopback(scene->family, 0);
		if (scene->family == AF_INET)
			((struct sockaddr_in *)name)->sin_addr.s_addr = 0;
		else
			((struct sockaddr_in6 *)name)->sin6_addr = in6addr_any;
		break;
	case HUGE_LEN:
		return sizeof *name + 1;
	}
	return len;
}

static void say_names(struct scene *scene)
{
	struct sockaddr_storage name;
	socklen_t len = sizeof name;
	say(" own:");
	if (getsockname(scene->socket, (void *)&name, &len) == 0)
		say_address(scene, "", &name, len);
	else
		result(-1);
	len = sizeof name;
	say(" peer:");
	if (getpeername(scene->socket, (void *)&name, &len) == 0)
		say_address(scene, "", &name, len);
	else
		result(-1);
}

static void run_connect(struct scene *scene, long kind, long b)
{
	struct sockaddr_storage name;
	socklen_t len = name_for(scene, kind, &name);
	(void)b;
	long done = result(connect(scene->socket, kind == NO_POINTER ? NULL : (void *)&name, len));
	if (done == -1 && errno == EINPROGRESS) {
		say(" %s", comes(scene->socket, POLLOUT | POLLERR | POLLHUP) ? "ends" : "goes on");
		result(connect(scene->socket, (void *)&name, len));
	}
	say_events("poll", events_of(scene->socket));
	say_names(scene);
}

/* After connect(AF_UNSPEC) a socket may be used again. */
static void run_reuse(struct scene *scene, long b, long c)
{
	struct sockaddr_storage name = scene->to, none = { .ss_family = AF_UNSPEC };
	char got[20];
	(void)b, (void)c;
	if (result(connect(scene->socket, (void *)&none, sizeof none)) < 0)
		return;
	say_events("poll", events_of(scene->socket));
	say_names(scene);
	result(recv(scene->socket, got, sizeof got, 0));
	result(send(scene->socket, "x", 1, 0));
	if (!scene->to.ss_family || scene->listener < 0)
		return;
	long again = result(connect(scene->socket, (void *)&name, length_of(scene)));
	if (again == -1 && errno != EINPROGRESS)
		return;
	wait_for(scene->socket, POLLOUT);
	say_names(scene);
	if (comes(scene->listener, POLLIN)) {
		int peer = accept(scene->listener, NULL, NULL);
		result(send(peer, "again", 5, 0));
		wait_for(scene->socket, POLLIN);
		say_bytes("got", got, result(recv(scene->socket, got, sizeof got, 0)));
		close(peer);
	}
}

/* As run_reuse, but nothing takes the error that the end of the connection leaves. */
static void run_reconnect(struct scene *scene, long b, long c)
{
	struct sockaddr_storage name = scene->to, none = { .ss_family = AF_UNSPEC };
	(void)b, (void)c;
	if (result(connect(scene->socket, (void *)&none, sizeof none)) < 0)
		return;
	if (!scene->to.ss_family || scene->listener < 0)
		return;
	result(connect(scene->socket, (void *)&name, length_of(scene)));
	wait_for(scene->socket, POLLOUT);
	result(connect(scene->socket, (void *)&name, length_of(scene)));
}

/* An attempt that fails, from an address with (`named`) or without a port of the program's choice:
 * may another socket have the address then, and does the socket keep it? */
static void run_fail(struct scene *scene, long named, long b)
{
	(void)b;
	struct sockaddr_storage own = loopback(scene->family, named ? closed_port(scene) : 0);
	struct sockaddr_storage to = loopback(scene->family, closed_port(scene)), after;
	socklen_t len = sizeof own, after_len = sizeof after;
	int fd = socket(scene->family, SOCK_STREAM, 0), other = socket(scene->family, SOCK_STREAM, 0);
	CHECK(bind(fd, (void *)&own, length_of(scene)) == 0);
	CHECK(getsockname(fd, (void *)&own, &len) == 0);
	result(connect(fd, (void *)&to, length_of(scene)));
	CHECK(getsockname(fd, (void *)&after, &after_len) == 0);
	say(" same name: %d", memcmp(&own, &after, len) == 0);
	result(bind(other, (void *)&own, length_of(scene)));
	result(bind(fd, (void *)&own, length_of(scene)));
	close(fd);
	close(other);
}

static void run_bind(struct scene *scene, long kind, long b)
{
	struct sockaddr_storage name;
	struct scene other = *scene;
	int taken = -1;
	other.to.ss_family = 0;
	(void)b;
	socklen_t len = name_for(&other, kind == USED ? SAME : kind, &name);
	if (kind == USED) {
		taken = socket(scene->family, scene->type, 0);
		CHECK(bind(taken, (void *)&name, len) == 0);
	}
	result(bind(scene->socket, kind == NO_POINTER ? NULL : (void *)&name, len));
	say_names(scene);
	if (taken >= 0)
		close(taken);
}

static void run_listen(struct scene *scene, long backlog, long b)
{
	int value = -1;
	socklen_t len = sizeof value;
	(void)b;
	result(listen(scene->socket, backlog));
	getsockopt(scene->socket, SOL_SOCKET, SO_ACCEPTCONN, &value, &len);
	say(" acceptconn=%d", value);
	say_events("poll", events_of(scene->socket));
}

static void run_accept(struct scene *scene, long kind, long flags)
{
	struct sockaddr_storage name = { 0 };
	socklen_t len = kind == 1 ? 0 : kind == 2 ? (socklen_t)-1 : kind == 3 ? 5 : sizeof name;
	int fd = accept4(scene->socket, kind == 4 ? NULL : (void *)&name,
			 kind == 4 || kind == 5 ? NULL : &len, flags);
	if (fd < 0) {
		result(fd);
	} else {
		say(" accepted flags=%x cloexec=%d", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
		if (kind == 0)
			say_address(scene, "from", &name, len);
		else
			say(" from=%u", len);
		close(fd);
	}
	say_events("poll", events_of(scene->socket));
}

static void run_shutdown(struct scene *scene, long how, long b)
{
	char got[20];
	(void)b;
	result(shutdown(scene->socket, how));
	if (scene->listener >= 0 && scene->peer >= 0 && (how == SHUT_WR || how == SHUT_RDWR))
		say_events("peer", comes(scene->peer, POLLIN | POLLHUP) ? events_of(scene->peer) : 0);
	say_events("poll", events_of(scene->socket));
	result(recv(scene->socket, got, sizeof got, 0));
	long sent = result(send(scene->socket, "x", 1, 0));
	/* A closed peer answers by a reset. */
	if (sent > 0 && scene->listener >= 0 && scene->peer < 0)
		wait_for(scene->socket, POLLHUP);
	if (scene->type == SOCK_STREAM && scene->listener >= 0)
		await_acknowledgement(scene->socket);
	result(shutdown(scene->socket, how));
}

static void run_name(struct scene *scene, long which, long room)
{
	struct sockaddr_storage name = { 0 };
	socklen_t len = room;
	int (*call)(int, struct sockaddr *, socklen_t *) = which ? getpeername : getsockname;
	if (result(call(scene->socket, (void *)&name, &len)) == 0)
		say(" %u", len), say_address(scene, "name", &name, room < (long)len ? 0 : len);
}

static void run_name_null(struct scene *scene, long which, long no_len)
{
	struct sockaddr_storage name;
	socklen_t len = sizeof name;
	int (*call)(int, struct sockaddr *, socklen_t *) = which ? getpeername : getsockname;
	result(call(scene->socket, no_len ? (void *)&name : NULL, no_len ? NULL : &len));
}

/* Which sockets can be made; the scene's is not used. */
static void run_socket(struct scene *scene, long type, long protocol)
{
	int fd = socket(scene->family, type, protocol);
	if (fd < 0) {
		result(fd);
		return;
	}
	int values[3] = { -1, -1, -1 }, names[] = { SO_TYPE, SO_PROTOCOL, SO_DOMAIN };
	for (int i = 0; i < 3; i++) {
		socklen_t len = sizeof values[i];
		getsockopt(fd, SOL_SOCKET, names[i], &values[i], &len);
	}
	say(" made %d %d %d flags=%x cloexec=%d", values[0], values[1], values[2], fcntl(fd, F_GETFL),
	    fcntl(fd, F_GETFD));
	close(fd);
}

static void run_socketpair(struct scene *scene, long b, long c)
{
	int pair[2];
	(void)b, (void)c;
	result(socketpair(scene->family, scene->type, 0, pair));
}

#define CONNECT(kind) { "connect(" #kind ")", ANY, run_connect, kind, 0 }
#define BIND(kind) { "bind(" #kind ")", ANY, run_bind, kind, 0 }
#define SOCKET(type, protocol) { "socket(" #type ", " #protocol ")", ANY | BASIC, run_socket, type, protocol }

static const struct call CALLS[] = {
	CONNECT(SAME),
	CONNECT(SHORT),
	CONNECT(LONG),
	CONNECT(HUGE_LEN),
	CONNECT(UNIX),
	CONNECT(UNSPEC),
	CONNECT(UNSPEC_2),
	CONNECT(PORT_0),
	CONNECT(NO_POINTER),
	CONNECT(OTHER_FAMILY),
	CONNECT(CLOSED_PORT),
	{ "connect(AF_UNSPEC) and again", ANY, run_reuse, 0, 0 },
	{ "connect(AF_UNSPEC) and again at once", TCP, run_reconnect, 0, 0 },
	{ "connect(a closed port) from a chosen port", TCP | BASIC, run_fail, 0, 0 },
	{ "connect(a closed port) from a named port", TCP | BASIC, run_fail, 1, 0 },
	BIND(SAME),
	BIND(SHORT),
	BIND(LONG),
	BIND(HUGE_LEN),
	BIND(UNIX),
	BIND(UNSPEC),
	BIND(PORT_0),
	BIND(NO_POINTER),
	BIND(OTHER_FAMILY),
	BIND(FOREIGN),
	BIND(WILDCARD),
	BIND(USED),
	{ "listen(0)", ANY, run_listen, 0, 0 },
	{ "listen(4)", ANY, run_listen, 4, 0 },
	{ "listen(-1)", ANY, run_listen, -1, 0 },
	{ "accept(name)", ANY, run_accept, 0, 0 },
	{ "accept4(SOCK_NONBLOCK|SOCK_CLOEXEC)", ANY, run_accept, 4, SOCK_NONBLOCK | SOCK_CLOEXEC },
	{ "accept4(bad flag)", ANY, run_accept, 4, 1 },
	{ "accept(name 0)", ANY, run_accept, 1, 0 },
	{ "accept(name -1)", ANY, run_accept, 2, 0 },
	{ "accept(name 5)", ANY, run_accept, 3, 0 },
	{ "accept(no length)", ANY, run_accept, 5, 0 },
	{ "shutdown(SHUT_RD)", ANY, run_shutdown, SHUT_RD, 0 },
	{ "shutdown(SHUT_WR)", ANY, run_shutdown, SHUT_WR, 0 },
	{ "shutdown(SHUT_RDWR)", ANY, run_shutdown, SHUT_RDWR, 0 },
	{ "shutdown(3)", ANY, run_shutdown, 3, 0 },
	{ "shutdown(-1)", ANY, run_shutdown, -1, 0 },
	{ "getsockname(128)", ANY, run_name, 0, 128 },
	{ "getsockname(16)", ANY, run_name, 0, 16 },
	{ "getsockname(0)", ANY, run_name, 0, 0 },
	{ "getsockname(-1)", ANY, run_name, 0, -1 },
	{ "getsockname(NULL)", ANY, run_name_null, 0, 0 },
	{ "getsockname(no length)", ANY, run_name_null, 0, 1 },
	{ "getpeername(128)", ANY, run_name, 1, 128 },
	{ "getpeername(3)", ANY, run_name, 1, 3 },
	{ "getpeername(-1)", ANY, run_name, 1, -1 },
	{ "getpeername(NULL)", ANY, run_name_null, 1, 0 },
	{ "getpeername(no length)", ANY, run_name_null, 1, 1 },
	SOCKET(SOCK_STREAM, 0),
	SOCKET(SOCK_STREAM, IPPROTO_TCP),
	SOCKET(SOCK_STREAM, IPPROTO_UDP),
	SOCKET(SOCK_STREAM, 300),
	SOCKET(SOCK_STREAM, -1),
	SOCKET(SOCK_STREAM | SOCK_NONBLOCK, 0),
	SOCKET(SOCK_STREAM | SOCK_CLOEXEC, 0),
	SOCKET(SOCK_DGRAM, 0),
	SOCKET(SOCK_DGRAM, IPPROTO_UDP),
	SOCKET(SOCK_DGRAM, IPPROTO_TCP),
	SOCKET(SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
	SOCKET(SOCK_SEQPACKET, 0),
	SOCKET(SOCK_RDM, 0),
	SOCKET(0, 0),
	SOCKET(77, 0),
	SOCKET(-1, 0),
	{ "socketpair()", ANY | BASIC, run_socketpair, 0, 0 },
};
const struct group NAMES = { CALLS, COUNT(CALLS) };
