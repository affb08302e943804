/* Calls that receive. */
#include "table.h"

extern ssize_t __read_chk(int, void *, size_t, size_t);
extern ssize_t __recv_chk(int, void *, size_t, size_t, int);
extern ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);

/* A pointer to nothing. */
#define NOWHERE ((void *)8)

static char room[128];

/* The socket after the call: what is readable, and the pending error. */
static void after(struct scene *scene)
{
	say_events("poll", events_of(scene->socket));
}

static void done(struct scene *scene, long got)
{
	if (result(got) > 0)
		say_bytes("got", room, got);
	after(scene);
}

static void run_recv(struct scene *scene, long len, long flags)
{
	memset(room, '.', sizeof room);
	done(scene, recv(scene->socket, room, len, flags));
}

static void run_recv_twice(struct scene *scene, long len, long flags)
{
	result(recv(scene->socket, room, len, flags));
	done(scene, recv(scene->socket, room, len, flags));
}

static void run_recv_at(struct scene *scene, long place, long len)
{
	result(recv(scene->socket, (void *)place, len, 0));
	after(scene);
}

static void run_recv_chk(struct scene *scene, long which, long len)
{
	struct sockaddr_storage from;
	socklen_t room_of_name = sizeof from;
	int fd = scene->socket;
	done(scene, which == 0 ? __read_chk(fd, room, len, sizeof room) :
		    which == 1 ? __recv_chk(fd, room, len, sizeof room, 0) :
				 __recvfrom_chk(fd, room, len, sizeof room, 0, (void *)&from, &room_of_name));
}

static void run_recvfrom(struct scene *scene, long name_len, long flags)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = name_len;
	long got = result(recvfrom(scene->socket, room, 64, flags, (void *)&from, &len));
	if (got >= 0) {
		say_bytes("got", room, got);
		if (len && name_len > 0)
			say_address(scene, "from", &from, len);
		else
			say(" from=%u", len);
	}
	after(scene);
}

static void run_recvfrom_no_len(struct scene *scene, long a, long b)
{
	struct sockaddr_storage from = { 0 };
	(void)a, (void)b;
	result(recvfrom(scene->socket, room, 64, 0, (void *)&from, NULL));
	after(scene);
}

static void run_read(struct scene *scene, long len, long b)
{
	(void)b;
	done(scene, read(scene->socket, room, len));
}

static void run_read_at(struct scene *scene, long place, long len)
{
	result(read(scene->socket, (void *)place, len));
	after(scene);
}

/* `kind` of vectors: see the table. */
static long vectors(struct iovec **at, long kind)
{
	static struct iovec two[2], many[1025], none[1], huge[2], bad[2];
	two[0] = (struct iovec){ room, 3 };
	two[1] = (struct iovec){ room + 3, 4 };
	none[0] = (struct iovec){ room, 0 };
	huge[0] = huge[1] = (struct iovec){ room, (size_t)-1 >> 1 };
	bad[0] = (struct iovec){ room, 3 };
	bad[1] = (struct iovec){ NOWHERE, 3 };
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = (struct iovec){ room, 0 };
	struct iovec *all[] = { two, many, many, none, huge, bad, NULL, two };
	long counts[] = { 2, 1025, 1024, 1, 2, 2, 1, -1 };
	*at = all[kind];
	return counts[kind];
}

static void run_readv(struct scene *scene, long kind, long b)
{
	struct iovec *at;
	long count = vectors(&at, kind);
	(void)b;
	done(scene, readv(scene->socket, at, count));
}

static void run_preadv2(struct scene *scene, long offset, long flags)
{
	struct iovec *at;
	long count = vectors(&at, 0);
	done(scene, preadv2(scene->socket, at, count, offset, flags));
}

static void run_pread(struct scene *scene, long which, long offset)
{
	struct iovec *at;
	long count = vectors(&at, 0);
	done(scene, which ? preadv(scene->socket, at, count, offset) : pread(scene->socket, room, 4, offset));
}

static void say_control(struct msghdr *msg)
{
	struct cmsghdr *c;
	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		say(" cmsg=%d/%d/%zu", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
}

static void run_recvmsg(struct scene *scene, long kind, long flags)
{
	struct sockaddr_storage from = { 0 };
	_Alignas(8) char control[256];
	struct iovec *at;
	long count = vectors(&at, kind);
	struct msghdr msg = { &from, sizeof from, at, count, control, sizeof control, 0x7f };
	long got = result(recvmsg(scene->socket, &msg, flags));
	if (got >= 0) {
		say_bytes("got", room, got);
		say(" flags=%x", msg.msg_flags);
		if (msg.msg_namelen)
			say_address(scene, "from", &from, msg.msg_namelen);
		say_control(&msg);
	}
	after(scene);
}

/* An option for times of what came before it was set. */
static void run_recvmsg_timed(struct scene *scene, long option, long off)
{
	int on = 1, none = 0;
	result(setsockopt(scene->socket, SOL_SOCKET, option, &on, sizeof on));
	if (off)
		result(setsockopt(scene->socket, SOL_SOCKET, option, &none, sizeof none));
	run_recvmsg(scene, 0, MSG_DONTWAIT);
}

static void run_recvmsg_at(struct scene *scene, long place, long b)
{
	(void)b;
	result(recvmsg(scene->socket, (void *)place, 0));
}

static void run_recvmsg_name(struct scene *scene, long len, long b)
{
	struct sockaddr_storage from = { 0 };
	struct iovec one = { room, 20 };
	struct msghdr msg = { &from, len, &one, 1, NULL, 0, 0 };
	(void)b;
	if (result(recvmsg(scene->socket, &msg, 0)) >= 0)
		say(" name=%u flags=%x", msg.msg_namelen, msg.msg_flags);
	after(scene);
}

static void run_recvmmsg(struct scene *scene, long count, long flags)
{
	static char rooms[3][20];
	struct iovec iov[3];
	struct mmsghdr all[3] = { 0 };
	struct timespec none = { 0, 0 };
	for (int i = 0; i < 3; i++) {
		iov[i] = (struct iovec){ rooms[i], sizeof rooms[i] };
		all[i].msg_hdr.msg_iov = &iov[i];
		all[i].msg_hdr.msg_iovlen = 1;
	}
	long got = result(recvmmsg(scene->socket, all, count, flags, &none));
	for (long i = 0; i < got; i++)
		say_bytes("got", rooms[i], all[i].msg_len);
	after(scene);
}

static void run_ioctl(struct scene *scene, long request, long b)
{
	int value = -7;
	(void)b;
	result(ioctl(scene->socket, request, &value));
	say(" value=%d", value);
}

static void run_rcvlowat(struct scene *scene, long mark, long b)
{
	int value = mark;
	(void)b;
	result(setsockopt(scene->socket, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value));
	after(scene);
	long got = recv(scene->socket, room, 3, 0);
	done(scene, got);
}

/* The error queue, as dig and traceroute read it. */
static void run_errqueue(struct scene *scene, long flags, long b)
{
	struct sockaddr_storage to = { 0 };
	_Alignas(8) char control[512];
	struct iovec one = { room, 20 };
	struct msghdr msg = { &to, sizeof to, &one, 1, control, sizeof control, 0 };
	struct cmsghdr *c;
	(void)b;
	long got = result(recvmsg(scene->socket, &msg, MSG_ERRQUEUE | flags));
	if (got >= 0) {
		say_bytes("got", room, got);
		say(" flags=%x", msg.msg_flags);
		if (msg.msg_namelen)
			say_address(scene, "to", &to, msg.msg_namelen);
		for (c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
			say(" cmsg=%d/%d/%zu", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
			unsigned char *at = CMSG_DATA(c);
			for (size_t i = 0; i < 16 && i < c->cmsg_len - sizeof *c; i++)
				say("%s%02x", i % 4 ? "" : " ", at[i]);
			say_address(scene, "offender", at + 16, c->cmsg_len - sizeof *c - 16);
		}
	}
	after(scene);
	int error = -1;
	socklen_t len = sizeof error;
	getsockopt(scene->socket, SOL_SOCKET, SO_ERROR, &error, &len);
	say(" so_error=%s", strerrorname_np(error));
	after(scene);
}

#define ALL (ANY | BLOCKING)
#define RECV(len, flags) { "recv(" #len ", " #flags ")", ALL, run_recv, len, flags }
#define RECVS(flags) RECV(0, flags), RECV(4, flags), RECV(64, flags)

static const struct call CALLS[] = {
	RECVS(0),
	RECVS(MSG_PEEK),
	RECVS(MSG_TRUNC),
	RECVS(MSG_WAITALL),
	RECVS(MSG_PEEK | MSG_WAITALL),
	RECVS(MSG_PEEK | MSG_TRUNC),
	RECVS(MSG_WAITALL | MSG_TRUNC),
	RECVS(MSG_OOB),
	RECVS(MSG_OOB | MSG_PEEK),
	RECVS(MSG_ERRQUEUE),
	RECVS(MSG_DONTWAIT),
	RECV(4, MSG_DONTWAIT | MSG_WAITALL),
	RECV(64, MSG_DONTWAIT | MSG_WAITALL | MSG_PEEK),
	RECV(4, MSG_NOSIGNAL),
	RECV(4, MSG_CMSG_CLOEXEC),
	RECV(4, MSG_DONTROUTE | MSG_CONFIRM),
	{ "recv(4) twice", ALL, run_recv_twice, 4, 0 },
	{ "recv(64) twice", ALL, run_recv_twice, 64, 0 },
	{ "recv(64, MSG_PEEK) twice", ALL, run_recv_twice, 64, MSG_PEEK },
	{ "recv(NULL, 0)", ANY, run_recv_at, 0, 0 },
	{ "recv(NULL, 4)", ANY, run_recv_at, 0, 4 },
	{ "recv(8, 4)", ANY, run_recv_at, 8, 4 },
	{ "recv(8, 0)", ANY, run_recv_at, 8, 0 },
	{ "__read_chk(4)", ANY, run_recv_chk, 0, 4 },
	{ "__recv_chk(4)", ANY, run_recv_chk, 1, 4 },
	{ "__recvfrom_chk(4)", ANY, run_recv_chk, 2, 4 },
	{ "recvfrom(name 128)", ALL, run_recvfrom, 128, 0 },
	{ "recvfrom(name 128, MSG_PEEK)", ANY, run_recvfrom, 128, MSG_PEEK },
	{ "recvfrom(name 0)", ANY, run_recvfrom, 0, 0 },
	{ "recvfrom(name 5)", ANY, run_recvfrom, 5, 0 },
	{ "recvfrom(name -1)", ANY, run_recvfrom, -1, 0 },
	{ "recvfrom(name, no length)", ANY, run_recvfrom_no_len, 0, 0 },
	{ "read(0)", ALL, run_read, 0, 0 },
	{ "read(4)", ALL, run_read, 4, 0 },
	{ "read(64)", ALL, run_read, 64, 0 },
	{ "read(NULL, 0)", ANY, run_read_at, 0, 0 },
	{ "read(NULL, 4)", ANY, run_read_at, 0, 4 },
	{ "readv(3+4)", ALL, run_readv, 0, 0 },
	{ "readv(1025 vectors)", ANY, run_readv, 1, 0 },
	{ "readv(1024 empty vectors)", ANY, run_readv, 2, 0 },
	{ "readv(empty)", ANY, run_readv, 3, 0 },
	{ "readv(too long)", ANY, run_readv, 4, 0 },
	{ "readv(3 + a bad pointer)", ANY, run_readv, 5, 0 },
	{ "readv(NULL)", ANY, run_readv, 6, 0 },
	{ "readv(-1)", ANY, run_readv, 7, 0 },
	{ "preadv2(-1)", ALL, run_preadv2, -1, 0 },
	{ "preadv2(0)", ANY, run_preadv2, 0, 0 },
	{ "preadv2(-1, RWF_NOWAIT)", ALL, run_preadv2, -1, RWF_NOWAIT },
	{ "preadv2(-1, RWF_HIPRI)", ANY, run_preadv2, -1, RWF_HIPRI },
	{ "preadv2(-1, bad flag)", ANY, run_preadv2, -1, 1 << 30 },
	{ "preadv2(-2)", ANY, run_preadv2, -2, 0 },
	{ "pread(0)", ANY, run_pread, 0, 0 },
	{ "pread(-1)", ANY, run_pread, 0, -1 },
	{ "preadv(0)", ANY, run_pread, 1, 0 },
	{ "recvmsg(3+4)", ALL, run_recvmsg, 0, 0 },
	{ "recvmsg, SO_TIMESTAMP set late", UDP, run_recvmsg_timed, SO_TIMESTAMP, 0 },
	{ "recvmsg, SO_TIMESTAMPNS set late", UDP, run_recvmsg_timed, SO_TIMESTAMPNS, 0 },
	{ "recvmsg, SO_TIMESTAMP set and not", UDP, run_recvmsg_timed, SO_TIMESTAMP, 1 },
	{ "recvmsg(3+4, MSG_PEEK)", ALL, run_recvmsg, 0, MSG_PEEK },
	{ "recvmsg(3+4, MSG_TRUNC)", UDP, run_recvmsg, 0, MSG_TRUNC },
	{ "recvmsg(3+4, MSG_WAITALL)", ALL, run_recvmsg, 0, MSG_WAITALL },
	{ "recvmsg(3+4, MSG_CMSG_CLOEXEC)", ANY, run_recvmsg, 0, MSG_CMSG_CLOEXEC },
	{ "recvmsg(3+4, MSG_OOB)", ANY, run_recvmsg, 0, MSG_OOB },
	{ "recvmsg(1025 vectors)", ANY, run_recvmsg, 1, 0 },
	{ "recvmsg(empty)", ANY, run_recvmsg, 3, 0 },
	{ "recvmsg(too long)", ANY, run_recvmsg, 4, 0 },
	{ "recvmsg(NULL vectors)", ANY, run_recvmsg, 6, 0 },
	{ "recvmsg(NULL)", ANY, run_recvmsg_at, 0, 0 },
	{ "recvmsg(8)", ANY, run_recvmsg_at, 8, 0 },
	{ "recvmsg(name 5)", ANY, run_recvmsg_name, 5, 0 },
	{ "recvmsg(name -1)", ANY, run_recvmsg_name, -1, 0 },
	{ "recvmsg(MSG_ERRQUEUE)", ALL, run_errqueue, 0, 0 },
	{ "recvmsg(MSG_ERRQUEUE|MSG_PEEK)", UDP, run_errqueue, MSG_PEEK, 0 },
	{ "recvmmsg(0)", ANY, run_recvmmsg, 0, 0 },
	{ "recvmmsg(2)", ANY, run_recvmmsg, 2, 0 },
	{ "recvmmsg(3)", ANY, run_recvmmsg, 3, 0 },
	{ "recvmmsg(3, MSG_WAITFORONE)", ALL, run_recvmmsg, 3, MSG_WAITFORONE },
	{ "FIONREAD", ANY, run_ioctl, FIONREAD, 0 },
	{ "SIOCOUTQ", ANY, run_ioctl, TIOCOUTQ, 0 },
	{ "SIOCOUTQNSD", ANY, run_ioctl, 0x894B, 0 },
	{ "SIOCATMARK", ANY, run_ioctl, 0x8905, 0 },
	{ "SO_RCVLOWAT 1", ANY, run_rcvlowat, 1, 0 },
	{ "SO_RCVLOWAT 8", ANY, run_rcvlowat, 8, 0 },
	{ "SO_RCVLOWAT 100", ANY, run_rcvlowat, 100, 0 },
};
const struct group RECEIVING = { CALLS, COUNT(CALLS) };
