/* The driver: rows of all groups; see table.h. An argument takes only the rows that contain it. */
#include "table.h"
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

static char row[4096];
static size_t used;
static volatile sig_atomic_t pipes;

void say(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	int more = vsnprintf(row + used, sizeof row - used, format, list);
	va_end(list);
	if (more > 0)
		used = used + more < sizeof row ? used + more : sizeof row - 1;
}

void say_anew(void)
{
	used = 0;
	row[0] = 0;
}

void say_out(int fd)
{
	CHECK(write(fd, row, used) == (long)used);
}

long result(long value)
{
	int error = errno;
	if (value < 0)
		say(" %ld %s", value, strerrorname_np(error) ? strerrorname_np(error) : "?");
	else
		say(" %ld", value);
	if (pipes)
		say(" SIGPIPE");
	pipes = 0;
	return value;
}

void say_bytes(const char *label, const void *bytes, long count)
{
	const unsigned char *at = bytes;
	say(" %s=\"", label);
	for (long i = 0; i < count && i < 80; i++)
		say("%c", at[i] >= ' ' && at[i] <= '~' ? at[i] : '.');
	say("\"");
}

void say_events(const char *label, int events)
{
	static const struct { int bit; const char *name; } names[] = {
		{ POLLIN, "IN" }, { POLLPRI, "PRI" }, { POLLOUT, "OUT" }, { POLLERR, "ERR" },
		{ POLLHUP, "HUP" }, { POLLNVAL, "NVAL" }, { POLLRDNORM, "RDNORM" },
		{ POLLRDBAND, "RDBAND" }, { POLLWRNORM, "WRNORM" }, { POLLWRBAND, "WRBAND" },
		{ POLLRDHUP, "RDHUP" },
	};
	say(" %s=", label);
	const char *between = "";
	for (size_t i = 0; i < COUNT(names); i++)
		if (events & names[i].bit) {
			say("%s%s", between, names[i].name);
			between = "|";
		}
	if (!*between)
		say("0");
}

int events_of(int fd)
{
	struct pollfd one = { fd, POLLIN | POLLPRI | POLLOUT | POLLRDHUP, 0 };
	CHECK(poll(&one, 1, 0) >= 0);
	return one.revents;
}

void wait_for(int fd, short events)
{
	for (int i = 0; i < 20000; i++) {
		struct pollfd one = { fd, events, 0 };
		if (poll(&one, 1, 1) > 0 && (one.revents & events) == events)
			return;
		if (one.revents)
			usleep(1000);
	}
	say_events(" waited for", events);
	say_events("is", events_of(fd));
	puts(row);
	CHECK(!"the state is reached");
}

int comes(int fd, short events)
{
	/* POLLERR and POLLHUP, which are told unasked, may come one after the other. */
	for (int i = 0; i < 20000; i++) {
		struct pollfd one = { fd, events, 0 };
		int count = poll(&one, 1, 10000);
		if (count == 0 || (count > 0 && one.revents & events))
			return count > 0;
		usleep(500);
	}
	return 0;
}

void await_acknowledgement(int fd)
{
	for (int tries = 0; tries < 20000; tries++) {
		struct tcp_info info = { 0 };
		socklen_t len = sizeof info;
		CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
		if (info.tcpi_state != TCP_FIN_WAIT1 && info.tcpi_state != TCP_CLOSING &&
		    info.tcpi_state != TCP_LAST_ACK)
			return;
		usleep(1000);
	}
	CHECK(!"the FIN is acknowledged");
}

/* Has what was sent come to the peer? */
static int has_come(const struct scene *scene, long sent)
{
	struct pollfd soon = { scene->peer, POLLIN, 0 };
	if (scene->type == SOCK_STREAM)
		return comes(scene->peer, POLLIN);
	if (sent > 0 && poll(&soon, 1, 200) > 0)
		return 1;
	/* An empty datagram, one that is late, or none at all? Another one comes behind it. */
	static const char mark[] = "mark";
	char got[80];
	const struct sockaddr *to = scene->to.ss_family ? (const void *)&scene->to : NULL;
	if (sendto(scene->socket, mark, sizeof mark, 0, to, to ? length_of(scene) : 0) < 0)
		return 0;
	CHECK(comes(scene->peer, POLLIN));
	return recv(scene->peer, got, sizeof got, MSG_PEEK) != sizeof mark || memcmp(got, mark, sizeof mark) != 0;
}

void say_received(struct scene *scene, long sent)
{
	char bytes[80];
	if (sent < 0 || scene->peer < 0 || (sent == 0 && scene->type == SOCK_STREAM))
		return;
	if (!has_come(scene, sent)) {
		say(" peer: nothing");
		return;
	}
	long got = recv(scene->peer, bytes, sizeof bytes, MSG_DONTWAIT);
	if (scene->type == SOCK_STREAM)
		while (got > 0 && got < sent && got < (long)sizeof bytes &&
		       comes(scene->peer, POLLIN | POLLPRI)) {
			long more = recv(scene->peer, bytes + got, sizeof bytes - got, MSG_DONTWAIT);
			if (more <= 0)
				break;
			got += more;
		}
	say_bytes("peer", bytes, got);
}

socklen_t length_of(const struct scene *scene)
{
	return scene->family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

struct sockaddr_storage loopback(int family, int port)
{
	struct sockaddr_storage address = { .ss_family = family };
	if (family == AF_INET)
		((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
	set_port(&address, port);
	return address;
}

int port_of(const struct sockaddr_storage *address)
{
	return ntohs(address->ss_family == AF_INET ? ((struct sockaddr_in *)address)->sin_port :
						     ((struct sockaddr_in6 *)address)->sin6_port);
}

void set_port(struct sockaddr_storage *address, int port)
{
	if (address->ss_family == AF_INET)
		((struct sockaddr_in *)address)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
}

void say_address(const struct scene *scene, const char *label, const void *bytes, socklen_t len)
{
	struct sockaddr_storage address = { 0 }, own = { 0 };
	socklen_t own_len = sizeof own;
	memcpy(&address, bytes, len < sizeof address ? len : sizeof address);
	say(" %s=%u:", label, len);
	if (len < sizeof(struct sockaddr_in)) {
		say("short");
		return;
	}
	const unsigned char *at = bytes;
	int family = address.ss_family;
	if (family != AF_INET && family != AF_INET6) {
		say("family %d", family);
		return;
	}
	say("%s:", family == AF_INET ? "4" : "6");
	for (unsigned i = family == AF_INET ? 4 : 8; i < (family == AF_INET ? 8u : 24u); i++)
		say("%x", at[i]);
	int port = port_of(&address);
	int had = getsockname(scene->socket, (void *)&own, &own_len) == 0 && own.ss_family;
	if (port == 0)
		say(":none");
	else if (scene->to.ss_family && port == port_of(&scene->to))
		say(":peer's");
	else if (had && port == port_of(&own))
		say(":own");
	else
		say(":other");
}

int closed_port(const struct scene *scene)
{
	struct sockaddr_storage address = loopback(scene->family, 0);
	socklen_t len = sizeof address;
	int fd = socket(scene->family, scene->type, 0);
	CHECK(fd >= 0);
	CHECK(bind(fd, (void *)&address, length_of(scene)) == 0);
	CHECK(getsockname(fd, (void *)&address, &len) == 0);
	close(fd);
	return port_of(&address);
}

static void on_pipe(int signal)
{
	(void)signal;
	pipes = 1;
}

static void on_alarm(int signal)
{
	(void)signal;
}

static int total;

static void one(const struct state *state, const struct call *call, int family, const char *only)
{
	struct scene scene = { family, state->kinds & TCP ? SOCK_STREAM : SOCK_DGRAM, -1, -1, -1, { 0 } };
	used = 0;
	say("%s%d %s %s:", state->kinds & TCP ? "tcp" : "udp", family == AF_INET ? 4 : 6, state->name,
	    call->name);
	if (only && !strstr(row, only))
		return;
	if (only && getenv("VERBOSE"))
		fprintf(stderr, "%s\n", row);
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	state->make(&scene);
	if (!(state->kinds & CLOSED))
		fcntl(scene.socket, F_SETFL, state->kinds & BLOCKING ? 0 : O_NONBLOCK);
	struct itimerval soon = { { 3, 0 }, { 20, 0 } }, off = { 0 };
	setitimer(ITIMER_REAL, &soon, NULL);
	pipes = 0;
	errno = 0;
	call->run(&scene, call->a, call->b);
	setitimer(ITIMER_REAL, &off, NULL);
	if (!(state->kinds & CLOSED))
		close(scene.socket);
	if (scene.peer >= 0)
		close(scene.peer);
	if (scene.listener >= 0)
		close(scene.listener);
	puts(row);
	total++;
	clock_gettime(CLOCK_MONOTONIC, &end);
	long took = (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000;
	if (getenv("SLOW") && took > atol(getenv("SLOW")))
		fprintf(stderr, "%ld us: %.80s\n", took, row);
}

static void group(const struct group *group, const char *only)
{
	for (size_t s = 0; s < STATE_COUNT; s++) {
		const struct state *state = &STATES[s];
		const char *without = getenv("WITHOUT_STATE");
		if (without && strncmp(state->name, without, strlen(without)) == 0)
			continue;
		for (size_t c = 0; c < group->count; c++) {
			const struct call *call = &group->calls[c];
			if (!(call->kinds & state->kinds & ANY))
				continue;
			if (call->kinds & BASIC && !(state->kinds & (BASIC | CLOSED)))
				continue;
			if (state->kinds & BLOCKING && !(call->kinds & BLOCKING))
				continue;
			one(state, call, AF_INET, only);
			if (!(state->kinds & (BLOCKING | CLOSED)) && (state->kinds & BASIC || c % 3 == s % 3))
				one(state, call, AF_INET6, only);
		}
	}
}

int main(int argc, char **argv)
{
	const struct group *groups[] = { &RECEIVING, &SENDING, &NAMES, &OPTIONS, &FILES, &WAITING, &PROCESSES };
	struct sigaction action = { .sa_handler = on_pipe };
	if (argc == 4 && strcmp(argv[1], "--child") == 0)
		child(argv + 2);
	sigaction(SIGPIPE, &action, NULL);
	action.sa_handler = on_alarm;
	sigaction(SIGALRM, &action, NULL);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	for (size_t i = 0; i < COUNT(groups); i++)
		group(groups[i], argc > 1 ? argv[1] : NULL);
	printf("rows %d\n", total);
	return 0;
}
