/* Options of sockets: reading, setting, reading back, each with right and wrong lengths. */
#include "table.h"
#include <linux/sockios.h>
#include <stdint.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif
#ifndef TCP_INQ
#define TCP_INQ 36
#endif
#ifndef TCP_CC_INFO
#define TCP_CC_INFO 26
#endif
#ifndef TCP_FASTOPEN_CONNECT
#define TCP_FASTOPEN_CONNECT 30
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif

/* Values that depend on memory, on time or on chance. */
static int varies(int level, int option)
{
	return (level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_RCVBUF || option == SO_INCOMING_CPU ||
					option == SO_COOKIE || option == SO_PEERNAME || option == SO_MEMINFO || option == SO_INCOMING_NAPI_ID)) ||
	       (level == IPPROTO_TCP && (option == TCP_INFO || option == TCP_MAXSEG || option == TCP_CC_INFO ||
					 option == TCP_WINDOW_CLAMP || option == TCP_TIMESTAMP || option == TCP_CONGESTION));
}

static void say_value(int level, int option, const unsigned char *bytes, socklen_t len)
{
	say(" len=%u", len);
	if (varies(level, option) || len > 64)
		return;
	if (len == 4) {
		int value;
		memcpy(&value, bytes, 4);
		say(" %d", value);
		return;
	}
	say(" ");
	for (socklen_t i = 0; i < len; i++)
		say("%02x", bytes[i]);
}

static void get(struct scene *scene, int level, int option, socklen_t room)
{
	unsigned char bytes[512];
	memset(bytes, 0xee, sizeof bytes);
	socklen_t len = room;
	if (result(getsockopt(scene->socket, level, option, bytes, &len)) == 0)
		say_value(level, option, bytes, len);
}

static void run_get(struct scene *scene, long level, long option)
{
	get(scene, level, option, 4);
	say(" |");
	get(scene, level, option, 0);
	say(" |");
	get(scene, level, option, 1);
	say(" |");
	get(scene, level, option, 256);
	say(" |");
	get(scene, level, option, -1);
	say(" |");
	socklen_t len = 4;
	result(getsockopt(scene->socket, level, option, NULL, &len));
	result(getsockopt(scene->socket, level, option, &len, NULL));
}

/* A buffer's size, and what is told of it. */
static void run_buffer(struct scene *scene, long option, long value)
{
	int size = (int)value;
	int told = option == SO_SNDBUF || option == SO_SNDBUFFORCE ? SO_SNDBUF : SO_RCVBUF;
	result(setsockopt(scene->socket, SOL_SOCKET, option, &size, sizeof size));
	socklen_t len = sizeof size;
	if (result(getsockopt(scene->socket, SOL_SOCKET, told, &size, &len)) == 0)
		say(" %d", size);
}

/* The seconds of SO_LINGER, which are told also while it is off. */
static void run_linger_told(struct scene *scene, long unused, long also_unused)
{
	const struct linger given[] = { { 0, 3 }, { 1, 5 }, { 0, 7 }, { 0, 0 }, { 9, 2 } };
	(void)unused;
	(void)also_unused;
	for (size_t i = 0; i < COUNT(given); i++) {
		result(setsockopt(scene->socket, SOL_SOCKET, SO_LINGER, &given[i], sizeof given[i]));
		struct linger told = { -1, -1 };
		socklen_t len = sizeof told;
		result(getsockopt(scene->socket, SOL_SOCKET, SO_LINGER, &told, &len));
		say(" %d %d |", told.l_onoff, told.l_linger);
	}
}

/* The name of a device, given with `len` bytes, and the name that is told into rooms. */
static void device(struct scene *scene, const char *name, socklen_t len)
{
	result(setsockopt(scene->socket, SOL_SOCKET, SO_BINDTODEVICE, name, len));
	for (socklen_t room = 0; room <= 32; room += 8) {
		char bytes[32] = "";
		socklen_t told = room;
		if (result(getsockopt(scene->socket, SOL_SOCKET, SO_BINDTODEVICE, bytes, &told)) == 0) {
			say(" len=%u", told);
			say_bytes("name", bytes, told);
		}
	}
	say(" |");
}

static void run_device(struct scene *scene, long unused, long also_unused)
{
	(void)unused;
	(void)also_unused;
	device(scene, "lo", 3);
	device(scene, "none0", 6);
	device(scene, "lox", 2);
	device(scene, "", 1);
	device(scene, NULL, 0);
}

/* The time of the last datagram, of which there is none. */
static void run_stamp(struct scene *scene, long request, long unused)
{
	(void)unused;
	long time[2];
	result(ioctl(scene->socket, request, time));
}

static void set(struct scene *scene, int level, int option, int value)
{
	result(setsockopt(scene->socket, level, option, &value, sizeof value));
	get(scene, level, option, 4);
}

static void run_set(struct scene *scene, long level, long option)
{
	int values[] = { 1, 0, -1, 300 };
	for (size_t i = 0; i < COUNT(values); i++) {
		set(scene, level, option, values[i]);
		say(" |");
	}
	int one = 1;
	result(setsockopt(scene->socket, level, option, &one, 0));
	result(setsockopt(scene->socket, level, option, &one, 1));
	result(setsockopt(scene->socket, level, option, &one, -1));
	result(setsockopt(scene->socket, level, option, NULL, 4));
}

static void run_set_bytes(struct scene *scene, long level, long option)
{
	unsigned char zeros[64] = { 0 };
	socklen_t lengths[] = { 4, 8, 12, 16, 20, 64 };
	for (size_t i = 0; i < COUNT(lengths); i++)
		result(setsockopt(scene->socket, level, option, zeros, lengths[i]));
	get(scene, level, option, 64);
}

static void run_level(struct scene *scene, long level, long option)
{
	int value = 1;
	socklen_t len = sizeof value;
	result(getsockopt(scene->socket, level, option, &value, &len));
	value = 1;
	result(setsockopt(scene->socket, level, option, &value, sizeof value));
}

static void run_congestion(struct scene *scene, long set, long len)
{
	static const char *const names[] = { "reno", "cubic", "nonesuch", "" };
	char name[32] = { 0 };
	socklen_t room = sizeof name;
	(void)len;
	result(setsockopt(scene->socket, IPPROTO_TCP, TCP_CONGESTION, names[set], strlen(names[set])));
	if (set < 2 && result(getsockopt(scene->socket, IPPROTO_TCP, TCP_CONGESTION, name, &room)) == 0)
		say(" %u %s", room, name);
}

#define GET(level, option) { "get " #option, ANY | BASIC, run_get, level, option }
#define BOTH(level, option) \
	{ "get " #option, ANY | BASIC, run_get, level, option }, { "set " #option, ANY | BASIC, run_set, level, option }
#define BYTES(level, option) \
	{ "get " #option, ANY | BASIC, run_get, level, option }, { "set bytes " #option, ANY | BASIC, run_set_bytes, level, option }
#define LEVEL(level, option) { "level " #level " option " #option, ANY | BASIC, run_level, level, option }

static const struct call CALLS[] = {
	GET(SOL_SOCKET, SO_TYPE),
	GET(SOL_SOCKET, SO_ERROR),
	GET(SOL_SOCKET, SO_ACCEPTCONN),
	GET(SOL_SOCKET, SO_PROTOCOL),
	GET(SOL_SOCKET, SO_DOMAIN),
	GET(SOL_SOCKET, SO_SNDBUF),
	GET(SOL_SOCKET, SO_RCVBUF),
	GET(SOL_SOCKET, SO_PEERCRED),
	BOTH(SOL_SOCKET, SO_PEERGROUPS),
	BOTH(SOL_SOCKET, SO_BPF_EXTENSIONS),
	BOTH(SOL_SOCKET, SO_CNX_ADVICE),
	BOTH(SOL_SOCKET, SO_PASSSEC),
	BOTH(SOL_SOCKET, SO_WIFI_STATUS),
	BOTH(SOL_SOCKET, SO_NOFCS),
	GET(SOL_SOCKET, SO_PEERNAME),
	GET(SOL_SOCKET, SO_PEERSEC),
	GET(SOL_SOCKET, SO_COOKIE),
	GET(SOL_SOCKET, SO_MEMINFO),
	GET(SOL_SOCKET, SO_INCOMING_NAPI_ID),
	BOTH(SOL_SOCKET, SO_INCOMING_CPU),
	BOTH(SOL_SOCKET, SO_DEBUG),
	BOTH(SOL_SOCKET, SO_REUSEADDR),
	BOTH(SOL_SOCKET, SO_REUSEPORT),
	BOTH(SOL_SOCKET, SO_KEEPALIVE),
	BOTH(SOL_SOCKET, SO_BROADCAST),
	BOTH(SOL_SOCKET, SO_OOBINLINE),
	BOTH(SOL_SOCKET, SO_DONTROUTE),
	BOTH(SOL_SOCKET, SO_NO_CHECK),
	BOTH(SOL_SOCKET, SO_PRIORITY),
	BOTH(SOL_SOCKET, SO_RCVLOWAT),
	BOTH(SOL_SOCKET, SO_SNDLOWAT),
	BOTH(SOL_SOCKET, SO_TIMESTAMP),
	BOTH(SOL_SOCKET, SO_TIMESTAMPNS),
	BOTH(SOL_SOCKET, SO_TIMESTAMPING),
	BOTH(SOL_SOCKET, SO_MARK),
	BOTH(SOL_SOCKET, SO_RXQ_OVFL),
	BOTH(SOL_SOCKET, SO_PEEK_OFF),
	BOTH(SOL_SOCKET, SO_PASSCRED),
	BOTH(SOL_SOCKET, SO_BUSY_POLL),
	BOTH(SOL_SOCKET, SO_PREFER_BUSY_POLL),
	BOTH(SOL_SOCKET, SO_ZEROCOPY),
	BOTH(SOL_SOCKET, SO_MAX_PACING_RATE),
	BOTH(SOL_SOCKET, SO_LOCK_FILTER),
	BOTH(SOL_SOCKET, SO_SELECT_ERR_QUEUE),
	BYTES(SOL_SOCKET, SO_LINGER),
	BYTES(SOL_SOCKET, SO_RCVTIMEO),
	BYTES(SOL_SOCKET, SO_SNDTIMEO),
	BYTES(SOL_SOCKET, SO_BINDTODEVICE),
	BYTES(SOL_SOCKET, SO_ATTACH_FILTER),
	BOTH(SOL_SOCKET, SO_DETACH_FILTER),
	BOTH(SOL_SOCKET, 200),
	BOTH(IPPROTO_IP, IP_TOS),
	BOTH(IPPROTO_IP, IP_TTL),
	BOTH(IPPROTO_IP, IP_RECVTTL),
	BOTH(IPPROTO_IP, IP_RECVTOS),
	BOTH(IPPROTO_IP, IP_PKTINFO),
	BOTH(IPPROTO_IP, IP_RECVERR),
	BOTH(IPPROTO_IP, IP_FREEBIND),
	BOTH(IPPROTO_IP, IP_TRANSPARENT),
	BOTH(IPPROTO_IP, IP_MTU_DISCOVER),
	BOTH(IPPROTO_IP, IP_RECVORIGDSTADDR),
	BOTH(IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT),
	BOTH(IPPROTO_IP, IP_MINTTL),
	BOTH(IPPROTO_IP, IP_MULTICAST_TTL),
	BOTH(IPPROTO_IP, IP_MULTICAST_LOOP),
	BOTH(IPPROTO_IP, IP_MULTICAST_ALL),
	GET(IPPROTO_IP, IP_MTU),
	GET(IPPROTO_IP, IP_OPTIONS),
	BYTES(IPPROTO_IP, IP_MULTICAST_IF),
	BYTES(IPPROTO_IP, IP_ADD_MEMBERSHIP),
	BYTES(IPPROTO_IP, IP_DROP_MEMBERSHIP),
	BOTH(IPPROTO_IP, 200),
	BOTH(IPPROTO_IPV6, IPV6_V6ONLY),
	BOTH(IPPROTO_IPV6, IPV6_UNICAST_HOPS),
	BOTH(IPPROTO_IPV6, IPV6_MULTICAST_HOPS),
	BOTH(IPPROTO_IPV6, IPV6_MULTICAST_LOOP),
	BOTH(IPPROTO_IPV6, IPV6_MULTICAST_IF),
	BOTH(IPPROTO_IPV6, IPV6_TCLASS),
	BOTH(IPPROTO_IPV6, IPV6_RECVTCLASS),
	BOTH(IPPROTO_IPV6, IPV6_RECVPKTINFO),
	BOTH(IPPROTO_IPV6, IPV6_RECVHOPLIMIT),
	BOTH(IPPROTO_IPV6, IPV6_RECVERR),
	BOTH(IPPROTO_IPV6, IPV6_MTU_DISCOVER),
	BOTH(IPPROTO_IPV6, IPV6_MTU),
	BOTH(IPPROTO_IPV6, IPV6_DONTFRAG),
	BOTH(IPPROTO_IPV6, IPV6_FREEBIND),
	BOTH(IPPROTO_IPV6, IPV6_AUTOFLOWLABEL),
	BYTES(IPPROTO_IPV6, IPV6_JOIN_GROUP),
	BOTH(IPPROTO_IPV6, 200),
	BOTH(IPPROTO_TCP, TCP_NODELAY),
	BOTH(IPPROTO_TCP, TCP_CORK),
	BOTH(IPPROTO_TCP, TCP_QUICKACK),
	BOTH(IPPROTO_TCP, TCP_KEEPIDLE),
	BOTH(IPPROTO_TCP, TCP_KEEPINTVL),
	BOTH(IPPROTO_TCP, TCP_KEEPCNT),
	BOTH(IPPROTO_TCP, TCP_SYNCNT),
	BOTH(IPPROTO_TCP, TCP_LINGER2),
	BOTH(IPPROTO_TCP, TCP_DEFER_ACCEPT),
	BOTH(IPPROTO_TCP, TCP_USER_TIMEOUT),
	BOTH(IPPROTO_TCP, TCP_NOTSENT_LOWAT),
	BOTH(IPPROTO_TCP, TCP_FASTOPEN),
	BOTH(IPPROTO_TCP, TCP_FASTOPEN_CONNECT),
	BOTH(IPPROTO_TCP, TCP_INQ),
	BOTH(IPPROTO_TCP, TCP_SAVE_SYN),
	GET(IPPROTO_TCP, TCP_MAXSEG),
	GET(IPPROTO_TCP, TCP_WINDOW_CLAMP),
	GET(IPPROTO_TCP, TCP_INFO),
	GET(IPPROTO_TCP, TCP_CC_INFO),
	GET(IPPROTO_TCP, TCP_SAVED_SYN),
	GET(IPPROTO_TCP, TCP_ULP),
	BYTES(IPPROTO_TCP, TCP_REPAIR),
	BOTH(IPPROTO_TCP, 200),
	{ "SO_LINGER, told", ANY | BASIC, run_linger_told, 0, 0 },
	{ "buffer SO_RCVBUF 0", ANY | BASIC, run_buffer, SO_RCVBUF, 0 },
	{ "buffer SO_RCVBUF 1", ANY | BASIC, run_buffer, SO_RCVBUF, 1 },
	{ "buffer SO_RCVBUF 2304", ANY | BASIC, run_buffer, SO_RCVBUF, 2304 },
	{ "buffer SO_RCVBUF 4608", ANY | BASIC, run_buffer, SO_RCVBUF, 4608 },
	{ "buffer SO_RCVBUF 65537", ANY | BASIC, run_buffer, SO_RCVBUF, 65537 },
	{ "buffer SO_SNDBUF 0", ANY | BASIC, run_buffer, SO_SNDBUF, 0 },
	{ "buffer SO_SNDBUF 1", ANY | BASIC, run_buffer, SO_SNDBUF, 1 },
	{ "buffer SO_SNDBUF 2304", ANY | BASIC, run_buffer, SO_SNDBUF, 2304 },
	{ "buffer SO_SNDBUF 4608", ANY | BASIC, run_buffer, SO_SNDBUF, 4608 },
	{ "buffer SO_SNDBUF 65537", ANY | BASIC, run_buffer, SO_SNDBUF, 65537 },
	{ "buffer SO_RCVBUFFORCE 0", ANY | BASIC, run_buffer, SO_RCVBUFFORCE, 0 },
	{ "buffer SO_RCVBUFFORCE 1", ANY | BASIC, run_buffer, SO_RCVBUFFORCE, 1 },
	{ "buffer SO_RCVBUFFORCE 2304", ANY | BASIC, run_buffer, SO_RCVBUFFORCE, 2304 },
	{ "buffer SO_RCVBUFFORCE 4608", ANY | BASIC, run_buffer, SO_RCVBUFFORCE, 4608 },
	{ "buffer SO_RCVBUFFORCE 65537", ANY | BASIC, run_buffer, SO_RCVBUFFORCE, 65537 },
	{ "buffer SO_RCVBUFFORCE -1", ANY | BASIC, run_buffer, SO_RCVBUFFORCE, -1 },
	{ "buffer SO_RCVBUFFORCE 8000000", ANY | BASIC, run_buffer, SO_RCVBUFFORCE, 8000000 },
	{ "buffer SO_SNDBUFFORCE 0", ANY | BASIC, run_buffer, SO_SNDBUFFORCE, 0 },
	{ "buffer SO_SNDBUFFORCE 1", ANY | BASIC, run_buffer, SO_SNDBUFFORCE, 1 },
	{ "buffer SO_SNDBUFFORCE 2304", ANY | BASIC, run_buffer, SO_SNDBUFFORCE, 2304 },
	{ "buffer SO_SNDBUFFORCE 4608", ANY | BASIC, run_buffer, SO_SNDBUFFORCE, 4608 },
	{ "buffer SO_SNDBUFFORCE 65537", ANY | BASIC, run_buffer, SO_SNDBUFFORCE, 65537 },
	{ "buffer SO_SNDBUFFORCE -1", ANY | BASIC, run_buffer, SO_SNDBUFFORCE, -1 },
	{ "buffer SO_SNDBUFFORCE 8000000", ANY | BASIC, run_buffer, SO_SNDBUFFORCE, 8000000 },
	{ "bind to a device", ANY | BASIC, run_device, 0, 0 },
	{ "ioctl(SIOCGSTAMP)", ANY | BASIC, run_stamp, SIOCGSTAMP, 0 },
	{ "ioctl(SIOCGSTAMPNS)", ANY | BASIC, run_stamp, SIOCGSTAMPNS, 0 },
	{ "congestion reno", TCP | BASIC, run_congestion, 0, 0 },
	{ "congestion cubic", TCP | BASIC, run_congestion, 1, 0 },
	{ "congestion unknown", TCP | BASIC, run_congestion, 2, 0 },
	{ "congestion empty", TCP | BASIC, run_congestion, 3, 0 },
	BOTH(IPPROTO_UDP, UDP_CORK),
	BOTH(IPPROTO_UDP, UDP_SEGMENT),
	BOTH(IPPROTO_UDP, UDP_GRO),
	BOTH(IPPROTO_UDP, UDP_ENCAP),
	BOTH(IPPROTO_UDP, UDP_NO_CHECK6_TX),
	BOTH(IPPROTO_UDP, 200),
	LEVEL(2, 1),
	LEVEL(-1, 1),
	LEVEL(17, 1),
	LEVEL(58, 1),
	LEVEL(255, 1),
	LEVEL(263, 1),
	LEVEL(1, -1),
	LEVEL(6, -1),
	LEVEL(0, -1),
};
const struct group OPTIONS = { CALLS, COUNT(CALLS) };
