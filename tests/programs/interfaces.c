/* What getifaddrs(3) of the C library tells. Linked statically: no library stands before it. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>

int main(void)
{
	struct ifaddrs *all;
	if (getifaddrs(&all) != 0)
		return 1;
	for (struct ifaddrs *one = all; one; one = one->ifa_next) {
		char address[64] = "-", mask[64] = "-";
		if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET) {
			struct sockaddr_in *in = (void *)one->ifa_addr, *net = (void *)one->ifa_netmask;
			inet_ntop(AF_INET, &in->sin_addr, address, sizeof address);
			inet_ntop(AF_INET, &net->sin_addr, mask, sizeof mask);
			printf("%s %s %s up=%d loopback=%d\n", one->ifa_name, address, mask,
			       !!(one->ifa_flags & IFF_RUNNING), !!(one->ifa_flags & IFF_LOOPBACK));
		}
	}
	freeifaddrs(all);
	return 0;
}
