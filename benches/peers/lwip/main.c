/* The measured client of tasuki-bench on lwIP, as Debian packages it. The stack is in this process, with
 * a thread of its own, over a TAP device. The client uses its sockets API.
 *
 * The package's own TAP interface is not used. It receives into pool buffers, which this build of the
 * library (2.1.3+dfsg1-2) makes for an MSS of 512. It fills them with frames of 1514 bytes and so writes
 * past their end. Here each frame gets a buffer of its size. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if_tun.h>
#include <math.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* lwIP has a TCP_MSS of its own. */
#undef TCP_MSS
#include <lwip/netif.h>
#include <lwip/sockets.h>
#include <lwip/tcpip.h>
#include <netif/etharp.h>

static const char *const tests[] = {"send", "receive", "rtt", "connect"};
enum test { SEND, RECEIVE, RTT, CONNECT };

struct options {
    const char *tap;
    struct sockaddr_in to;
    enum test test;
    uint64_t bytes, count;
    /* Of round trips at most. */
    double most_seconds;
};

static void fail(const char *doing)
{
    fprintf(stderr, "tasuki-peer-lwip: cannot %s\n", doing);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void put_all(int socket, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = lwip_send(socket, bytes, len, 0);
        if (n <= 0)
            fail("send");
        bytes += n;
        len -= (size_t)n;
    }
}

static void get_all(int socket, uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = lwip_recv(socket, bytes, len, 0);
        if (n <= 0)
            fail("receive");
        bytes += n;
        len -= (size_t)n;
    }
}

static int start(const struct options *o, uint32_t size, uint64_t total)
{
    int socket = lwip_socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    uint8_t order[16] = {(uint8_t)o->test};
    if (socket < 0 || lwip_connect(socket, (const struct sockaddr *)&o->to, sizeof o->to) < 0)
        fail("connect");
    if (lwip_setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
        fail("set TCP_NODELAY");
    /* Little-endian, as all machines that Tasuki runs on. */
    memcpy(order + 4, &size, 4);
    memcpy(order + 8, &total, 8);
    put_all(socket, order, sizeof order);
    return socket;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The times themselves are for those who ask for more than a median: tasuki-bench makes the same of
 * them for all clients. */
static void print_summary(const struct options *o, uint32_t size, double *times, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += times[i];
    qsort(times, n, sizeof *times, by_value);
    printf("{\"test\":\"%s\",\"size\":%u,\"rate\":%f,\"median_us\":%f,\"p99_us\":%f,\"times_us\":[",
           tests[o->test], size, n * 1e6 / sum, times[n / 2], times[n * 99 / 100]);
    for (size_t i = 0; i < n; i++)
        printf("%s%.3f", i > 0 ? "," : "", times[i]);
}

static void stream(const struct options *o, uint32_t size, uint8_t *data)
{
    uint64_t total = size < 4096 ? o->bytes / 4 : o->bytes, left = total;
    int socket = start(o, size, total);
    double began = now_us();
    while (left > 0) {
        size_t want = left < size ? left : size;
        if (o->test == SEND) {
            put_all(socket, data, want);
            left -= want;
        } else {
            ssize_t n = lwip_recv(socket, data, want, 0);
            if (n <= 0)
                fail("receive");
            left -= (uint64_t)n;
        }
    }
    if (o->test == SEND)
        get_all(socket, data, 4);
    double rate = total / 1048576.0 / ((now_us() - began) / 1e6);
    lwip_close(socket);
    printf("{\"test\":\"%s\",\"size\":%u,\"rate\":%f,\"median_us\":null,\"p99_us\":null}\n",
           tests[o->test], size, rate);
}

static void exchanges(const struct options *o, uint32_t size, uint8_t *data)
{
    uint64_t warm_up = o->count / 10, all = o->count + warm_up;
    uint64_t done = 0, one_read = 0;
    double *times = calloc(all ? all : 1, sizeof *times), all_began;
    uint8_t answer[4];
    int socket = o->test == RTT ? start(o, size, all) : -1;
    if (!times || all == 0)
        fail("measure nothing");
    all_began = now_us();
    while (done < all && (done <= warm_up || now_us() - all_began < o->most_seconds * 1e6)) {
        double began = now_us();
        if (o->test == CONNECT)
            socket = start(o, size, 1);
        put_all(socket, data, size);
        get_all(socket, answer, sizeof answer);
        if (o->test == CONNECT)
            lwip_close(socket);
        times[done] = now_us() - began;
        /* The answer tells with how many reads the request came. */
        one_read += done >= warm_up && answer[0] == 1 && !answer[1] && !answer[2] && !answer[3];
        done++;
    }
    print_summary(o, size, times + warm_up, done - warm_up);
    printf("],\"one_read\":%llu,\"warm_up\":%llu}\n", (unsigned long long)one_read,
           (unsigned long long)warm_up);
    if (o->test == RTT)
        lwip_close(socket);
    free(times);
}

/* Frames from the device to the stack, for ever. */
static void *receive_frames(void *netif)
{
    static uint8_t frame[2048];
    struct netif *tap = netif;
    int fd = *(int *)tap->state;
    for (;;) {
        ssize_t n = read(fd, frame, sizeof frame);
        if (n < 0 && errno != EINTR)
            fail("read from the TAP device");
        if (n <= 0)
            continue;
        struct pbuf *p = pbuf_alloc(PBUF_RAW, (u16_t)n, PBUF_RAM);
        if (!p)
            continue;
        pbuf_take(p, frame, (u16_t)n);
        if (tap->input(p, tap) != ERR_OK)
            pbuf_free(p);
    }
    return NULL;
}

static err_t send_frame(struct netif *tap, struct pbuf *p)
{
    uint8_t frame[2048];
    u16_t n = pbuf_copy_partial(p, frame, sizeof frame, 0);
    return write(*(int *)tap->state, frame, n) == n ? ERR_OK : ERR_IF;
}

static err_t init_tap(struct netif *tap)
{
    static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
    tap->output = etharp_output;
    tap->linkoutput = send_frame;
    tap->mtu = 1500;
    tap->hwaddr_len = sizeof mac;
    memcpy(tap->hwaddr, mac, sizeof mac);
    tap->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
    return ERR_OK;
}

static int open_tap(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR);
    strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0)
        fail("open the TAP device");
    return fd;
}

static void open_stack(const char *name)
{
    static struct netif tap;
    static int fd;
    pthread_t receiver;
    ip4_addr_t address, mask, gateway;
    IP4_ADDR(&address, 10, 218, 1, 2);
    IP4_ADDR(&mask, 255, 255, 255, 0);
    IP4_ADDR(&gateway, 10, 218, 1, 1);
    fd = open_tap(name);
    tcpip_init(NULL, NULL);
    LOCK_TCPIP_CORE();
    if (!netif_add(&tap, &address, &mask, &gateway, &fd, init_tap, tcpip_input))
        fail("make the interface");
    netif_set_default(&tap);
    netif_set_up(&tap);
    netif_set_link_up(&tap);
    UNLOCK_TCPIP_CORE();
    if (pthread_create(&receiver, NULL, receive_frames, &tap) != 0)
        fail("start a thread");
}

static struct options parse(int argc, char **argv, char **sizes)
{
    static const struct option known[] = {
        {"tap", required_argument, NULL, 't'},   {"connect", required_argument, NULL, 'c'},
        {"test", required_argument, NULL, 'e'},  {"size", required_argument, NULL, 's'},
        {"bytes", required_argument, NULL, 'b'}, {"count", required_argument, NULL, 'n'},
        {"most-seconds", required_argument, NULL, 'm'},
        {NULL, 0, NULL, 0},
    };
    struct options o = {
        .to.sin_family = AF_INET, .bytes = 64 << 20, .count = 2000, .most_seconds = HUGE_VAL};
    int c, found = 0;
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        char *colon;
        switch (c) {
        case 't':
            o.tap = optarg;
            break;
        case 'c':
            colon = strchr(optarg, ':');
            if (!colon)
                fail("use --connect without a port");
            *colon = '\0';
            o.to.sin_port = htons((uint16_t)atoi(colon + 1));
            if (inet_pton(AF_INET, optarg, &o.to.sin_addr) != 1)
                fail("use --connect: not an IPv4 address");
            break;
        case 'e':
            for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
                if (strcmp(tests[i], optarg) == 0) {
                    o.test = (enum test)i;
                    found = 1;
                }
            break;
        case 's':
            *sizes = optarg;
            break;
        case 'b':
            o.bytes = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            o.count = strtoull(optarg, NULL, 10);
            break;
        case 'm':
            o.most_seconds = strtod(optarg, NULL);
            break;
        default:
            exit(2);
        }
    }
    if (!found || !o.tap || !o.to.sin_port)
        fail("measure without --tap, --test and --connect");
    return o;
}

int main(int argc, char **argv)
{
    char *sizes = "65536", *rest = NULL;
    struct options o = parse(argc, argv, &sizes);
    sizes = strdup(sizes);
    open_stack(o.tap);
    for (char *word = strtok_r(sizes, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        uint32_t size = (uint32_t)strtoul(word, NULL, 10);
        uint8_t *data = calloc(1, size > 4 ? size : 4);
        if (!data || size == 0)
            fail("use --size");
        if (o.test == SEND || o.test == RECEIVE)
            stream(&o, size, data);
        else
            exchanges(&o, size, data);
        fflush(stdout);
        free(data);
    }
    return 0;
}
