/* System calls by which a program might get around its instance. Prints the outcome of each. */
#include <errno.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AF_TIPC
#define AF_TIPC 30
#endif
#ifndef AF_SMC
#define AF_SMC 43
#endif

static const char *name(int number) {
    switch (number) {
    case EPERM: return "EPERM";
    case ENOSYS: return "ENOSYS";
    case ENOKEY: return "ENOKEY";
    case EBUSY: return "EBUSY";
    case EOPNOTSUPP: return "EOPNOTSUPP";
    case EAFNOSUPPORT: return "EAFNOSUPPORT";
    case EPROTONOSUPPORT: return "EPROTONOSUPPORT";
    case EINVAL: return "EINVAL";
    case EFAULT: return "EFAULT";
    default: return strerror(number);
    }
}

static void say(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? name(errno) : "made");
}

static int netlink(int protocol) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol); }

int main(void) {
    const char *host = "leak.example.invalid";
    say("request_key", syscall(SYS_request_key, "dns_resolver", host, "", -1));
    say("request_key without a helper", syscall(SYS_request_key, "user", host, 0, 0));
    say("keyctl", syscall(SYS_keyctl, 0, -3, 0, 0, 0));
    say("io_uring_setup", syscall(SYS_io_uring_setup, 1, 0));
    say("io_uring_enter", syscall(SYS_io_uring_enter, 0, 0, 0, 0, 0, 0));
    say("io_uring_register", syscall(SYS_io_uring_register, 0, 0, 0, 0));
    say("bpf", syscall(SYS_bpf, 0, 0, 0));
    say("finit_module", syscall(SYS_finit_module, 0, "", 0));
    say("kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0));
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    say("pidfd_open", self);
    say("pidfd_getfd", syscall(SYS_pidfd_getfd, self, 0, 0));
    say("seccomp with a listener", syscall(SYS_seccomp, 1, 8, 0));
    int pair[2];
    say("a pair of TIPC", socketpair(AF_TIPC, SOCK_STREAM, 0, pair));
    say("a pair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    int families[] = {AF_PACKET, AF_VSOCK, AF_CAN, AF_BLUETOOTH, AF_SMC, AF_TIPC};
    for (unsigned at = 0; at < sizeof families / sizeof *families; at++)
        say("family", socket(families[at], SOCK_DGRAM, 0));
    say("netlink of routes", netlink(NETLINK_ROUTE));
    say("netlink of events", netlink(NETLINK_KOBJECT_UEVENT));
    say("netlink of filters", netlink(NETLINK_NETFILTER));
    say("netlink of iSCSI", netlink(NETLINK_ISCSI));
    say("netlink of RDMA", netlink(NETLINK_RDMA));
    struct ifreq request = {.ifr_flags = 0};
    strcpy(request.ifr_name, "lo");
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    say("flags", ioctl(local, SIOCGIFFLAGS, &request));
    say("new flags", ioctl(local, SIOCSIFFLAGS, &request));
    return 0;
}
