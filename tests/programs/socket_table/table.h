/* A table of socket calls: each call with each of its arguments on a socket in each state. Every
 * row is a line of output: the case, the result, errno by name, and what the call did. The same
 * program runs on the kernel's stack and on Tasuki's; tests/tests/socket_table.rs compares.
 *
 * All connections are over 127.0.0.1 and ::1, within the program. Nothing waits for a fixed time:
 * a state is ready when poll(2) says so. */
#ifndef TABLE_H
#define TABLE_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Kinds of states and of calls, as bits. */
enum {
	TCP = 1,	/* a stream */
	UDP = 2,	/* a datagram socket */
	ANY = TCP | UDP,
	BLOCKING = 4,	/* a blocking socket with SO_RCVTIMEO: calls may take some milliseconds */
	BASIC = 8,	/* a state that options and descriptor calls are tried in */
	CLOSED = 16,	/* a closed descriptor */
};

/* A socket in some state, and the sockets that it needs for it. */
struct scene {
	int family;
	int type;
	int socket;	/* under test */
	int peer;	/* its peer, or -1 */
	int listener;	/* or -1 */
	struct sockaddr_storage to;	/* the address of `peer` or of `listener` */
};

struct state {
	const char *name;
	int kinds;
	void (*make)(struct scene *);
};

struct call {
	const char *name;
	int kinds;
	void (*run)(struct scene *, long, long);
	long a, b;
};

extern const struct state STATES[];
extern const size_t STATE_COUNT;

struct group {
	const struct call *calls;
	size_t count;
};

extern const struct group RECEIVING, SENDING, NAMES, OPTIONS, FILES, WAITING, PROCESSES;

/* Ends the program: the table itself does not work. */
#define CHECK(what)                                                                           \
	do {                                                                                  \
		if (!(what)) {                                                                \
			printf("\nline %s:%d: not so: %s (%m)\n", __FILE__, __LINE__, #what); \
			fflush(stdout);                                                       \
			_exit(1);                                                             \
		}                                                                             \
	} while (0)

/* More of the row. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A call's result, errno if it is -1, and SIGPIPE if it came. */
long result(long value);
/* The row begins anew, in a child; and its text so far goes to a descriptor. */
void say_anew(void);
void say_out(int fd);
/* The program as the child of one of its rows. */
void child(char **words);
/* Bytes, the unprintable ones as dots. */
void say_bytes(const char *label, const void *bytes, long count);
/* An address; ports only as zero, the peer's, the own one, or another. */
void say_address(const struct scene *, const char *label, const void *address, socklen_t room);
/* poll(2)'s events by name. */
void say_events(const char *label, int events);
/* What poll(2) says of a descriptor now, for all events. */
int events_of(int fd);
/* Waits for all of `events`, or ends the program. */
void wait_for(int fd, short events);
/* Does poll(2) say one of `events` within ten seconds? */
int comes(int fd, short events);
/* Waits until the FIN that the stream has sent is acknowledged, or ends the program. */
void await_acknowledgement(int fd);
/* What the peer receives of a send that took `sent` bytes. */
void say_received(struct scene *, long sent);

socklen_t length_of(const struct scene *);
/* 127.0.0.1 or ::1, with a port in host order. */
struct sockaddr_storage loopback(int family, int port);
int port_of(const struct sockaddr_storage *);
void set_port(struct sockaddr_storage *, int port);
/* A port of loopback on which nothing listens. */
int closed_port(const struct scene *);
#endif
