/* poll, select and epoll on a socket. */
#include "table.h"
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

static void run_poll(struct scene *scene, long events, long b)
{
	struct pollfd one = { scene->socket, events, 0 };
	(void)b;
	result(poll(&one, 1, 0));
	say_events("events", one.revents);
}

static void run_poll_mixed(struct scene *scene, long b, long c)
{
	int pipes[2];
	(void)b, (void)c;
	CHECK(pipe(pipes) == 0);
	CHECK(write(pipes[1], "x", 1) == 1);
	struct pollfd all[] = { { -1, POLLIN, 7 }, { scene->socket, POLLIN | POLLOUT, 0 }, { pipes[0], POLLIN, 0 },
				{ 999, POLLIN, 0 }, { scene->socket, 0, 0 }, { scene->socket, POLLIN, 0 } };
	result(poll(all, COUNT(all), 0));
	for (size_t i = 0; i < COUNT(all); i++)
		say_events("events", all[i].revents);
	close(pipes[0]);
	close(pipes[1]);
}

static void run_ppoll(struct scene *scene, long kind, long b)
{
	struct timespec times[] = { { 0, 0 }, { 0, 1000000 }, { 0, -1 }, { 0, 1000000000 }, { -1, 0 } };
	struct pollfd one = { scene->socket, POLLIN, 0 };
	(void)b;
	result(ppoll(&one, 1, &times[kind], NULL));
	say_events("events", one.revents);
}

static void run_poll_null(struct scene *scene, long count, long b)
{
	(void)scene, (void)b;
	result(poll(NULL, count, 0));
}

static void run_select(struct scene *scene, long kind, long b)
{
	fd_set in, out, odd;
	struct timeval none = { 0, 0 }, bad = { 0, -1 };
	int fd = scene->socket;
	(void)b;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&odd);
	FD_SET(fd, &in);
	FD_SET(fd, &out);
	FD_SET(fd, &odd);
	if (kind == 1)
		result(select(fd + 1, &in, NULL, NULL, &none));
	else if (kind == 2)
		result(select(-1, &in, NULL, NULL, &none));
	else if (kind == 3)
		result(select(fd + 1, &in, NULL, NULL, &bad));
	else if (kind == 4)
		result(select(fd, &in, &out, &odd, &none));
	else
		result(select(fd + 1, &in, &out, &odd, &none));
	say(" %d%d%d", !!FD_ISSET(fd, &in), !!FD_ISSET(fd, &out), !!FD_ISSET(fd, &odd));
}

static void say_epoll(int set, int room, int wait)
{
	struct epoll_event all[4];
	int count = result(epoll_wait(set, all, room, wait));
	for (int i = 0; i < count; i++) {
		say_events("events", all[i].events & 0xffff);
		say(" data=%d", all[i].data.u32);
	}
}

static void run_epoll(struct scene *scene, long events, long mask)
{
	struct epoll_event one = { .events = events, .data.u32 = 7 };
	int set = epoll_create1(0);
	(void)mask;
	result(epoll_ctl(set, EPOLL_CTL_ADD, scene->socket, &one));
	say_epoll(set, 4, 0);
	say_epoll(set, 4, 0);
	result(epoll_ctl(set, EPOLL_CTL_ADD, scene->socket, &one));
	one.data.u32 = 8;
	result(epoll_ctl(set, EPOLL_CTL_MOD, scene->socket, &one));
	say_epoll(set, 4, 0);
	result(epoll_ctl(set, EPOLL_CTL_DEL, scene->socket, NULL));
	say_epoll(set, 4, 0);
	result(epoll_ctl(set, EPOLL_CTL_DEL, scene->socket, NULL));
	result(epoll_ctl(set, EPOLL_CTL_MOD, scene->socket, &one));
	close(set);
}

static void run_epoll_bad(struct scene *scene, long kind, long b)
{
	struct epoll_event one = { .events = EPOLLIN, .data.u32 = 7 };
	int set = epoll_create1(0);
	(void)b;
	switch (kind) {
	case 0: result(epoll_ctl(set, 77, scene->socket, &one)); break;
	case 1: result(epoll_ctl(set, EPOLL_CTL_ADD, scene->socket, NULL)); break;
	case 2: result(epoll_ctl(scene->socket, EPOLL_CTL_ADD, set, &one)); break;
	case 3: result(epoll_wait(scene->socket, &one, 1, 0)); break;
	case 4:
		one.events |= EPOLLEXCLUSIVE | EPOLLONESHOT;
		result(epoll_ctl(set, EPOLL_CTL_ADD, scene->socket, &one));
		break;
	case 5:
		one.events |= EPOLLEXCLUSIVE;
		result(epoll_ctl(set, EPOLL_CTL_ADD, scene->socket, &one));
		result(epoll_ctl(set, EPOLL_CTL_MOD, scene->socket, &one));
		one.events = EPOLLIN;
		result(epoll_ctl(set, EPOLL_CTL_MOD, scene->socket, &one));
		break;
	case 6:
		result(epoll_ctl(set, EPOLL_CTL_ADD, scene->socket, &one));
		one.events |= EPOLLEXCLUSIVE;
		result(epoll_ctl(set, EPOLL_CTL_MOD, scene->socket, &one));
		break;
	case 7:
		result(epoll_ctl(set, EPOLL_CTL_ADD, scene->socket, &one));
		result(epoll_wait(set, &one, 0, 0));
		result(epoll_wait(set, &one, -1, 0));
		result(epoll_wait(set, NULL, 1, 0));
		break;
	case 8:
		result(epoll_ctl(set, EPOLL_CTL_ADD, set, &one));
		break;
	}
	close(set);
}

/* A set in a set in a set. */
static void run_nested(struct scene *scene, long events, long b)
{
	struct epoll_event one = { .events = EPOLLIN | EPOLLOUT, .data.u32 = 1 };
	int inner = epoll_create1(0), outer = epoll_create1(0), top = epoll_create1(0);
	(void)b;
	result(epoll_ctl(inner, EPOLL_CTL_ADD, scene->socket, &one));
	one = (struct epoll_event){ .events = events, .data.u32 = 2 };
	result(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &one));
	one = (struct epoll_event){ .events = events, .data.u32 = 3 };
	result(epoll_ctl(top, EPOLL_CTL_ADD, outer, &one));
	say_events("inner", events_of(inner));
	say_events("top", events_of(top));
	say_epoll(top, 4, 0);
	say_epoll(outer, 4, 0);
	say_epoll(inner, 4, 0);
	result(epoll_ctl(inner, EPOLL_CTL_ADD, top, &one));
	close(inner);
	close(outer);
	close(top);
}

/* A wait in an outer set that ends by what comes meanwhile. */
static void run_nested_wait(struct scene *scene, long b, long c)
{
	struct epoll_event one = { .events = EPOLLIN, .data.u32 = 1 };
	char got[32];
	int inner = epoll_create1(0), outer = epoll_create1(0);
	(void)b, (void)c;
	if (scene->peer >= 0 && scene->listener != scene->socket) {
		result(epoll_ctl(inner, EPOLL_CTL_ADD, scene->socket, &one));
		result(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &one));
		while (recv(scene->socket, got, sizeof got, 0) > 0)
			;
		say_epoll(outer, 4, 0);
		if (send(scene->peer, "late", 4, MSG_NOSIGNAL) == 4)
			say_epoll(outer, 4, 10000);
		say_epoll(inner, 4, 0);
	}
	close(inner);
	close(outer);
}

/* Several sets of which one or all are told. */
static void run_exclusive(struct scene *scene, long b, long c)
{
	struct epoll_event one = { .events = EPOLLIN | EPOLLEXCLUSIVE, .data.u32 = 1 };
	int sets[2] = { epoll_create1(0), epoll_create1(0) };
	(void)b, (void)c;
	for (int i = 0; i < 2; i++)
		result(epoll_ctl(sets[i], EPOLL_CTL_ADD, scene->socket, &one));
	for (int i = 0; i < 2; i++)
		say_epoll(sets[i], 4, 0);
	for (int i = 0; i < 2; i++)
		close(sets[i]);
}

/* An edge for each arrival. */
static void run_edges(struct scene *scene, long b, long c)
{
	struct epoll_event one = { .events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.u32 = 1 };
	int set = epoll_create1(0);
	char got[4];
	(void)b, (void)c;
	result(epoll_ctl(set, EPOLL_CTL_ADD, scene->socket, &one));
	say_epoll(set, 4, 0);
	result(recv(scene->socket, got, 2, 0));
	say_epoll(set, 4, 0);
	if (scene->listener >= 0 && scene->peer >= 0 && send(scene->peer, "more", 4, MSG_NOSIGNAL) == 4) {
		say_epoll(set, 4, 10000);
		say_epoll(set, 4, 0);
	}
	close(set);
}

/* A closed socket leaves its sets; a duplicate keeps it there. */
static void run_epoll_close(struct scene *scene, long b, long c)
{
	struct epoll_event one = { .events = EPOLLIN | EPOLLOUT, .data.u32 = 1 };
	int set = epoll_create1(0), other = dup(scene->socket);
	(void)b, (void)c;
	result(epoll_ctl(set, EPOLL_CTL_ADD, scene->socket, &one));
	close(scene->socket);
	say_epoll(set, 4, 0);
	close(other);
	say_epoll(set, 4, 0);
	close(set);
	scene->socket = dup(0);
}

/* Data, end and errors in turn, in some order, with poll(2)'s events between. */
static void run_order(struct scene *scene, long order, long b)
{
	static const char *const orders[] = { "vrvrvevs", "vevrvrvs", "vsvsvrve", "vpvrvevr" };
	char bytes[4];
	int over = events_of(scene->socket) & POLLHUP;
	(void)b;
	for (const char *step = orders[order]; *step; step++) {
		int error = 0;
		socklen_t len = sizeof error;
		long got;
		switch (*step) {
		case 'v':
			say_events("events", events_of(scene->socket));
			break;
		case 'r':
		case 'p':
			got = result(recv(scene->socket, bytes, sizeof bytes, MSG_DONTWAIT | (*step == 'p' ? MSG_PEEK : 0)));
			if (got > 0)
				say_bytes("got", bytes, got);
			break;
		case 'e':
			result(getsockopt(scene->socket, SOL_SOCKET, SO_ERROR, &error, &len));
			say(" error=%d", error);
			break;
		default:
			result(send(scene->socket, "x", 1, MSG_DONTWAIT));
		}
		/* What a send causes at the peer is on its way. */
		if (*step == 's' && !over)
			break;
	}
}

#define POLL(events) { "poll(" #events ")", ANY, run_poll, events, 0 }
#define EPOLL(events) { "epoll(" #events ")", ANY, run_epoll, (unsigned)(events), 0 }
#define NESTED(events) { "nested epoll(" #events ")", ANY, run_nested, (unsigned)(events), 0 }

static const struct call CALLS[] = {
	POLL(0), POLL(POLLIN), POLL(POLLPRI), POLL(POLLOUT), POLL(POLLRDHUP), POLL(POLLRDNORM),
	POLL(POLLRDBAND), POLL(POLLWRNORM), POLL(POLLWRBAND), POLL(POLLHUP | POLLERR | POLLNVAL), POLL(0x7fff),
	{ "poll(mixed)", ANY, run_poll_mixed, 0, 0 },
	{ "ppoll(0)", ANY, run_ppoll, 0, 0 },
	{ "ppoll(1 ms)", ANY, run_ppoll, 1, 0 },
	{ "ppoll(-1 ns)", ANY | BASIC, run_ppoll, 2, 0 },
	{ "ppoll(10^9 ns)", ANY | BASIC, run_ppoll, 3, 0 },
	{ "ppoll(-1 s)", ANY | BASIC, run_ppoll, 4, 0 },
	{ "poll(NULL, 0)", ANY | BASIC, run_poll_null, 0, 0 },
	{ "poll(NULL, 1)", ANY | BASIC, run_poll_null, 1, 0 },
	{ "select(all)", ANY, run_select, 0, 0 },
	{ "select(in)", ANY, run_select, 1, 0 },
	{ "select(-1)", ANY | BASIC, run_select, 2, 0 },
	{ "select(bad time)", ANY | BASIC, run_select, 3, 0 },
	{ "select(too few)", ANY | BASIC, run_select, 4, 0 },
	EPOLL(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI), EPOLL(EPOLLIN), EPOLL(0), EPOLL(EPOLLIN | EPOLLOUT | EPOLLET),
	EPOLL(EPOLLIN | EPOLLOUT | EPOLLONESHOT), EPOLL(EPOLLIN | EPOLLOUT | EPOLLEXCLUSIVE),
	EPOLL(EPOLLIN | EPOLLWAKEUP), EPOLL(EPOLLRDNORM | EPOLLWRNORM),
	{ "epoll_ctl(bad operation)", ANY | BASIC, run_epoll_bad, 0, 0 },
	{ "epoll_ctl(no event)", ANY | BASIC, run_epoll_bad, 1, 0 },
	{ "epoll_ctl(socket as set)", ANY | BASIC, run_epoll_bad, 2, 0 },
	{ "epoll_wait(socket as set)", ANY | BASIC, run_epoll_bad, 3, 0 },
	{ "epoll_ctl(EXCLUSIVE|ONESHOT)", ANY | BASIC, run_epoll_bad, 4, 0 },
	{ "epoll_ctl(MOD of EXCLUSIVE)", ANY | BASIC, run_epoll_bad, 5, 0 },
	{ "epoll_ctl(MOD to EXCLUSIVE)", ANY | BASIC, run_epoll_bad, 6, 0 },
	{ "epoll_wait(no room)", ANY | BASIC, run_epoll_bad, 7, 0 },
	{ "epoll_ctl(a set in itself)", ANY | BASIC, run_epoll_bad, 8, 0 },
	NESTED(EPOLLIN), NESTED(EPOLLIN | EPOLLET), NESTED(EPOLLIN | EPOLLONESHOT),
	{ "nested epoll, later", ANY, run_nested_wait, 0, 0 },
	{ "two sets, EPOLLEXCLUSIVE", ANY, run_exclusive, 0, 0 },
	{ "edges", ANY, run_edges, 0, 0 },
	{ "order(receive first)", TCP, run_order, 0, 0 },
	{ "order(SO_ERROR first)", TCP, run_order, 1, 0 },
	{ "order(send first)", TCP, run_order, 2, 0 },
	{ "order(peek first)", TCP, run_order, 3, 0 },
	{ "epoll and close", ANY, run_epoll_close, 0, 0 },
};
const struct group WAITING = { CALLS, COUNT(CALLS) };
