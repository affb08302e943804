/* Calls that send, and those that move bytes between files and sockets. */
#include "table.h"
#include <sys/sendfile.h>
#include <sys/mman.h>

#define NOWHERE ((void *)8)

static const char WORD[] = "abcdefghijklmnop";
static char large[70000];

/* The answer of a closed peer to what was sent is a reset. */
static void say_end(struct scene *scene, long sent)
{
	if (sent > 0 && scene->listener >= 0 && scene->peer < 0)
		say(" %s", comes(scene->socket, POLLHUP) ? "ends" : "goes on");
}

/* What came, and what the socket says then. */
static void done(struct scene *scene, long sent)
{
	say_received(scene, result(sent));
	say_end(scene, sent);
	say_events("poll", events_of(scene->socket));
}

static void run_send(struct scene *scene, long len, long flags)
{
	done(scene, send(scene->socket, WORD, len, flags));
}

/* The error of the first is told once. */
static void run_send_twice(struct scene *scene, long len, long flags)
{
	say_end(scene, result(send(scene->socket, WORD, len, flags)));
	result(send(scene->socket, WORD, len, flags));
}

static void run_send_at(struct scene *scene, long place, long len)
{
	done(scene, send(scene->socket, (void *)place, len, 0));
}

static void run_large(struct scene *scene, long len, long b)
{
	(void)b;
	result(send(scene->socket, large, len, 0));
}

enum { PEER, PEER_SHORT, PEER_LONG, UNIX, UNSPEC, PORT_0, NO_NAME, OTHER_FAMILY, HUGE_LEN, NEGATIVE, CLOSED_PORT, ANY_ADDRESS };

static socklen_t name_for(struct scene *scene, long kind, struct sockaddr_storage *name)
{
	*name = scene->to.ss_family ? scene->to : loopback(scene->family, closed_port(scene));
	socklen_t len = length_of(scene);
	int other = scene->family == AF_INET ? AF_INET6 : AF_INET;
	switch (kind) {
	case PEER_SHORT:
		return 7;
	case PEER_LONG:
		return sizeof *name;
	case UNIX:
		name->ss_family = AF_UNIX;
		break;
	case UNSPEC:
		name->ss_family = AF_UNSPEC;
		break;
	case PORT_0:
		set_port(name, 0);
		break;
	case OTHER_FAMILY:
		*name = loopback(other, 9);
		return sizeof(struct sockaddr_in6);
	case HUGE_LEN:
		return sizeof *name + 1;
	case NEGATIVE:
		return -1;
	case CLOSED_PORT:
		*name = loopback(scene->family, closed_port(scene));
		break;
	case ANY_ADDRESS:
		if (scene->family == AF_INET)
			((struct sockaddr_in *)name)->sin_addr.s_addr = 0;
		else
			((struct sockaddr_in6 *)name)->sin6_addr = in6addr_any;
		break;
	}
	return len;
}

static void run_sendto(struct scene *scene, long kind, long flags)
{
	struct sockaddr_storage name;
	socklen_t len = name_for(scene, kind, &name);
	long sent = sendto(scene->socket, WORD, 4, flags, kind == NO_NAME ? NULL : (void *)&name, len);
	if (kind == CLOSED_PORT)
		result(sent);
	else
		done(scene, sent);
}

static void run_write(struct scene *scene, long len, long b)
{
	(void)b;
	done(scene, write(scene->socket, WORD, len));
}

static void run_write_at(struct scene *scene, long place, long len)
{
	done(scene, write(scene->socket, (void *)place, len));
}

static long vectors(struct iovec **at, long kind)
{
	static struct iovec two[2], many[1025], none[1], huge[2], bad[2];
	char *word = (char *)WORD;
	two[0] = (struct iovec){ word, 3 };
	two[1] = (struct iovec){ word + 8, 4 };
	none[0] = (struct iovec){ word, 0 };
	huge[0] = huge[1] = (struct iovec){ word, (size_t)-1 >> 1 };
	bad[0] = (struct iovec){ word, 3 };
	bad[1] = (struct iovec){ NOWHERE, 3 };
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = (struct iovec){ word, i < 2 };
	struct iovec *all[] = { two, many, many, none, huge, bad, NULL, two };
	long counts[] = { 2, 1025, 1024, 1, 2, 2, 1, -1 };
	*at = all[kind];
	return counts[kind];
}

static void run_writev(struct scene *scene, long kind, long b)
{
	struct iovec *at;
	long count = vectors(&at, kind);
	(void)b;
	done(scene, writev(scene->socket, at, count));
}

static void run_pwritev2(struct scene *scene, long offset, long flags)
{
	struct iovec *at;
	long count = vectors(&at, 0);
	done(scene, pwritev2(scene->socket, at, count, offset, flags));
}

static void run_pwrite(struct scene *scene, long which, long offset)
{
	struct iovec *at;
	long count = vectors(&at, 0);
	done(scene, which ? pwritev(scene->socket, at, count, offset) :
			    pwrite(scene->socket, WORD, 4, offset));
}

static void run_sendmsg(struct scene *scene, long kind, long name_kind)
{
	struct sockaddr_storage name;
	struct iovec *at;
	long count = vectors(&at, kind);
	socklen_t len = name_for(scene, name_kind, &name);
	struct msghdr msg = { name_kind == NO_NAME ? NULL : &name, len, at, count, NULL, 0, 0 };
	done(scene, sendmsg(scene->socket, &msg, 0));
}

static void run_sendmsg_at(struct scene *scene, long place, long b)
{
	(void)b;
	result(sendmsg(scene->socket, (void *)place, 0));
}

/* Control messages that are none, and one for files. */
static void run_sendmsg_control(struct scene *scene, long kind, long b)
{
	_Alignas(8) char control[64] = { 0 };
	struct iovec *at;
	long count = vectors(&at, 0);
	struct msghdr msg = { NULL, 0, at, count, control, 24, 0 };
	struct cmsghdr *c = (void *)control;
	(void)b;
	*c = (struct cmsghdr){ kind == 0 ? 3 : CMSG_LEN(4), kind == 2 ? IPPROTO_IP : SOL_SOCKET,
			       kind == 2 ? 77 : kind == 3 ? SCM_RIGHTS : 99 };
	done(scene, sendmsg(scene->socket, &msg, 0));
}

static void run_sendmmsg(struct scene *scene, long count, long b)
{
	struct iovec iov[2] = { { (char *)WORD, 3 }, { (char *)WORD + 3, 2 } };
	struct mmsghdr all[2] = { 0 };
	(void)b;
	if (scene->listener >= 0 && scene->peer < 0)
		return; /* A reset may come between the two. */
	for (int i = 0; i < 2; i++) {
		all[i].msg_hdr.msg_iov = &iov[i];
		all[i].msg_hdr.msg_iovlen = 1;
	}
	long sent = result(sendmmsg(scene->socket, all, count, 0));
	for (long i = 0; i < sent; i++)
		say(" %u", all[i].msg_len);
	say_received(scene, sent > 0 && scene->type == SOCK_STREAM ? 5 : sent);
	if (sent > 1 && scene->type == SOCK_DGRAM)
		say_received(scene, sent);
}

/* A file of ten bytes. */
static int file(void)
{
	int fd = memfd_create("file", 0);
	CHECK(fd >= 0);
	CHECK(write(fd, "0123456789", 10) == 10);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static void run_sendfile(struct scene *scene, long offset, long len)
{
	int fd = file();
	off_t at = offset;
	long sent = sendfile(scene->socket, fd, offset == -1 ? NULL : &at, len);
	done(scene, sent);
	say(" offset=%ld position=%ld", (long)at, (long)lseek(fd, 0, SEEK_CUR));
	close(fd);
}

static void run_sendfile_in(struct scene *scene, long kind, long b)
{
	int fd = file(), pipes[2];
	(void)b;
	CHECK(pipe(pipes) == 0);
	switch (kind) {
	case 0: /* from the socket into a file */
		result(sendfile(fd, scene->socket, NULL, 4));
		break;
	case 1: /* from a pipe */
		CHECK(write(pipes[1], "pipe", 4) == 4);
		done(scene, sendfile(scene->socket, pipes[0], NULL, 4));
		break;
	case 2: /* from nothing */
		result(sendfile(scene->socket, -1, NULL, 4));
		break;
	case 3: /* from a file that cannot be read */
		result(sendfile(scene->socket, pipes[1], NULL, 4));
		break;
	case 4: /* from the socket itself */
		result(sendfile(scene->socket, scene->socket, NULL, 4));
		break;
	}
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

enum { NONBLOCK = 1, MORE = 4 };

static void run_splice_in(struct scene *scene, long len, long flags)
{
	int pipes[2];
	char got[64];
	CHECK(pipe(pipes) == 0);
	fcntl(pipes[0], F_SETFL, O_NONBLOCK);
	long moved = result(splice(scene->socket, NULL, pipes[1], NULL, len, flags));
	long count = read(pipes[0], got, sizeof got);
	if (moved > 0)
		say_bytes("pipe", got, count);
	say_events("poll", events_of(scene->socket));
	close(pipes[0]);
	close(pipes[1]);
}

static void run_splice_out(struct scene *scene, long len, long flags)
{
	int pipes[2];
	CHECK(pipe2(pipes, O_NONBLOCK) == 0);
	CHECK(write(pipes[1], "0123456789", 10) == 10);
	done(scene, splice(pipes[0], NULL, scene->socket, NULL, len, flags));
	int left = 0;
	ioctl(pipes[0], FIONREAD, &left);
	say(" left=%d", left);
	close(pipes[0]);
	close(pipes[1]);
}

static void run_splice_bad(struct scene *scene, long kind, long b)
{
	int pipes[2], fd = file();
	loff_t at = 0;
	(void)b;
	CHECK(pipe2(pipes, O_NONBLOCK) == 0);
	switch (kind) {
	case 0: /* an offset into a socket */
		result(splice(scene->socket, &at, pipes[1], NULL, 4, 0));
		break;
	case 1: /* an offset into a pipe */
		result(splice(scene->socket, NULL, pipes[1], &at, 4, 0));
		break;
	case 2: /* no pipe at all */
		result(splice(scene->socket, NULL, fd, NULL, 4, 0));
		break;
	case 3:
		result(splice(fd, NULL, scene->socket, NULL, 4, 0));
		break;
	case 4: /* an empty pipe */
		result(splice(pipes[0], NULL, scene->socket, NULL, 4, NONBLOCK));
		break;
	case 5: /* the wrong end */
		result(splice(scene->socket, NULL, pipes[0], NULL, 4, 0));
		break;
	case 6:
		result(splice(scene->socket, NULL, pipes[1], NULL, 4, 1 << 20));
		break;
	case 7: /* an end of file */
		close(pipes[1]);
		pipes[1] = -1;
		result(splice(pipes[0], NULL, scene->socket, NULL, 4, 0));
		break;
	case 8:
		result(tee(scene->socket, pipes[1], 4, 0));
		break;
	case 9:
		result(tee(pipes[0], scene->socket, 4, 0));
		break;
	case 10: {
		struct iovec one = { (char *)WORD, 4 };
		result(vmsplice(scene->socket, &one, 1, 0));
		break;
	}
	case 11: { /* a full pipe */
		char page[4096];
		while (write(pipes[1], page, sizeof page) > 0)
			;
		result(splice(scene->socket, NULL, pipes[1], NULL, 4, NONBLOCK));
		break;
	}
	case 12:
		result(copy_file_range(scene->socket, NULL, fd, NULL, 4, 0));
		break;
	}
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

#define SEND(len, flags) { "send(" #len ", " #flags ")", ANY, run_send, len, flags }

static const struct call CALLS[] = {
	SEND(0, 0),
	SEND(4, 0),
	SEND(16, 0),
	SEND(0, MSG_NOSIGNAL),
	SEND(4, MSG_NOSIGNAL),
	SEND(4, MSG_DONTWAIT),
	SEND(4, MSG_EOR),
	SEND(4, MSG_OOB),
	SEND(0, MSG_OOB),
	SEND(4, MSG_OOB | MSG_NOSIGNAL),
	SEND(4, MSG_DONTROUTE),
	SEND(4, MSG_CONFIRM),
	SEND(4, MSG_PEEK),
	SEND(4, MSG_ERRQUEUE),
	SEND(4, MSG_WAITALL | MSG_TRUNC),
	SEND(4, MSG_FASTOPEN),
	SEND(4, MSG_ZEROCOPY),
	{ "send(4) twice", ANY, run_send_twice, 4, 0 },
	{ "send(4, MSG_NOSIGNAL) twice", ANY, run_send_twice, 4, MSG_NOSIGNAL },
	{ "send(NULL, 0)", ANY, run_send_at, 0, 0 },
	{ "send(NULL, 4)", ANY, run_send_at, 0, 4 },
	{ "send(8, 4)", ANY, run_send_at, 8, 4 },
	{ "send(65507)", UDP, run_large, 65507, 0 },
	{ "send(65508)", UDP, run_large, 65508, 0 },
	{ "send(65527)", UDP, run_large, 65527, 0 },
	{ "send(65536)", UDP, run_large, 65536, 0 },
	{ "sendto(peer)", ANY, run_sendto, PEER, 0 },
	{ "sendto(peer, MSG_FASTOPEN)", TCP, run_sendto, CLOSED_PORT, MSG_FASTOPEN | MSG_NOSIGNAL },
	{ "sendto(peer, 7 bytes)", ANY, run_sendto, PEER_SHORT, 0 },
	{ "sendto(peer, 128 bytes)", ANY, run_sendto, PEER_LONG, 0 },
	{ "sendto(peer, 129 bytes)", ANY, run_sendto, HUGE_LEN, 0 },
	{ "sendto(peer, -1 bytes)", ANY, run_sendto, NEGATIVE, 0 },
	{ "sendto(AF_UNIX)", ANY, run_sendto, UNIX, 0 },
	{ "sendto(AF_UNSPEC)", ANY, run_sendto, UNSPEC, 0 },
	{ "sendto(port 0)", ANY, run_sendto, PORT_0, 0 },
	{ "sendto(NULL, 16)", ANY, run_sendto, NO_NAME, 0 },
	{ "sendto(other family)", ANY, run_sendto, OTHER_FAMILY, 0 },
	{ "sendto(closed port)", ANY, run_sendto, CLOSED_PORT, 0 },
	{ "sendto(any address)", UDP, run_sendto, ANY_ADDRESS, 0 },
	{ "write(0)", ANY, run_write, 0, 0 },
	{ "write(4)", ANY, run_write, 4, 0 },
	{ "write(NULL, 0)", ANY, run_write_at, 0, 0 },
	{ "write(NULL, 4)", ANY, run_write_at, 0, 4 },
	{ "writev(3+4)", ANY, run_writev, 0, 0 },
	{ "writev(1025 vectors)", ANY, run_writev, 1, 0 },
	{ "writev(1024 vectors)", ANY, run_writev, 2, 0 },
	{ "writev(empty)", ANY, run_writev, 3, 0 },
	{ "writev(too long)", ANY, run_writev, 4, 0 },
	{ "writev(3 + a bad pointer)", ANY, run_writev, 5, 0 },
	{ "writev(NULL)", ANY, run_writev, 6, 0 },
	{ "writev(-1)", ANY, run_writev, 7, 0 },
	{ "pwritev2(-1)", ANY, run_pwritev2, -1, 0 },
	{ "pwritev2(0)", ANY, run_pwritev2, 0, 0 },
	{ "pwritev2(-1, RWF_NOWAIT)", ANY, run_pwritev2, -1, RWF_NOWAIT },
	{ "pwritev2(-1, RWF_APPEND)", ANY, run_pwritev2, -1, RWF_APPEND },
	{ "pwritev2(-1, bad flag)", ANY, run_pwritev2, -1, 1 << 30 },
	{ "pwrite(0)", ANY, run_pwrite, 0, 0 },
	{ "pwrite(-1)", ANY, run_pwrite, 0, -1 },
	{ "pwritev(0)", ANY, run_pwrite, 1, 0 },
	{ "sendmsg(3+4)", ANY, run_sendmsg, 0, NO_NAME },
	{ "sendmsg(3+4, peer)", ANY, run_sendmsg, 0, PEER },
	{ "sendmsg(3+4, peer, 7 bytes)", ANY, run_sendmsg, 0, PEER_SHORT },
	{ "sendmsg(3+4, peer, 129 bytes)", ANY, run_sendmsg, 0, HUGE_LEN },
	{ "sendmsg(3+4, peer, -1 bytes)", ANY, run_sendmsg, 0, NEGATIVE },
	{ "sendmsg(1025 vectors)", ANY, run_sendmsg, 1, NO_NAME },
	{ "sendmsg(empty)", ANY, run_sendmsg, 3, NO_NAME },
	{ "sendmsg(too long)", ANY, run_sendmsg, 4, NO_NAME },
	{ "sendmsg(3 + a bad pointer)", ANY, run_sendmsg, 5, NO_NAME },
	{ "sendmsg(NULL vectors)", ANY, run_sendmsg, 6, NO_NAME },
	{ "sendmsg(NULL)", ANY, run_sendmsg_at, 0, 0 },
	{ "sendmsg(8)", ANY, run_sendmsg_at, 8, 0 },
	{ "sendmsg(control too short)", ANY, run_sendmsg_control, 0, 0 },
	{ "sendmsg(unknown SOL_SOCKET control)", ANY, run_sendmsg_control, 1, 0 },
	{ "sendmsg(unknown IPPROTO_IP control)", ANY, run_sendmsg_control, 2, 0 },
	{ "sendmsg(SCM_RIGHTS)", ANY, run_sendmsg_control, 3, 0 },
	{ "sendmmsg(0)", ANY, run_sendmmsg, 0, 0 },
	{ "sendmmsg(2)", ANY, run_sendmmsg, 2, 0 },
	{ "sendfile(0, 4)", ANY, run_sendfile, 0, 4 },
	{ "sendfile(position, 4)", ANY, run_sendfile, -1, 4 },
	{ "sendfile(8, 4)", ANY, run_sendfile, 8, 4 },
	{ "sendfile(20, 4)", ANY, run_sendfile, 20, 4 },
	{ "sendfile(0, 0)", ANY, run_sendfile, 0, 0 },
	{ "sendfile(-5, 4)", ANY, run_sendfile, -5, 4 },
	{ "sendfile(socket to file)", ANY, run_sendfile_in, 0, 0 },
	{ "sendfile(pipe to socket)", ANY, run_sendfile_in, 1, 0 },
	{ "sendfile(from -1)", ANY, run_sendfile_in, 2, 0 },
	{ "sendfile(unreadable)", ANY, run_sendfile_in, 3, 0 },
	{ "sendfile(socket to itself)", ANY, run_sendfile_in, 4, 0 },
	{ "splice(socket to pipe, 4)", ANY | BLOCKING, run_splice_in, 4, 0 },
	{ "splice(socket to pipe, 64)", ANY | BLOCKING, run_splice_in, 64, 0 },
	{ "splice(socket to pipe, 64, NONBLOCK)", ANY | BLOCKING, run_splice_in, 64, NONBLOCK },
	{ "splice(socket to pipe, 64, MOVE|MORE)", ANY, run_splice_in, 64, MORE | 1 },
	{ "splice(socket to pipe, 0)", ANY, run_splice_in, 0, 0 },
	{ "splice(pipe to socket, 4)", ANY, run_splice_out, 4, 0 },
	{ "splice(pipe to socket, 64)", ANY, run_splice_out, 64, 0 },
	{ "splice(pipe to socket, 0)", ANY, run_splice_out, 0, 0 },
	{ "splice(offset of socket)", ANY, run_splice_bad, 0, 0 },
	{ "splice(offset of pipe)", ANY, run_splice_bad, 1, 0 },
	{ "splice(socket to file)", ANY, run_splice_bad, 2, 0 },
	{ "splice(file to socket)", ANY, run_splice_bad, 3, 0 },
	{ "splice(empty pipe to socket)", ANY, run_splice_bad, 4, 0 },
	{ "splice(socket to pipe's other end)", ANY, run_splice_bad, 5, 0 },
	{ "splice(bad flag)", ANY, run_splice_bad, 6, 0 },
	{ "splice(ended pipe to socket)", ANY, run_splice_bad, 7, 0 },
	{ "tee(socket to pipe)", ANY, run_splice_bad, 8, 0 },
	{ "tee(pipe to socket)", ANY, run_splice_bad, 9, 0 },
	{ "vmsplice(socket)", ANY, run_splice_bad, 10, 0 },
	{ "splice(socket to full pipe)", ANY, run_splice_bad, 11, 0 },
	{ "copy_file_range(socket)", ANY, run_splice_bad, 12, 0 },
};
const struct group SENDING = { CALLS, COUNT(CALLS) };
