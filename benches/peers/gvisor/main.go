// The measured client of tasuki-bench on gVisor's netstack. The stack is in this process, over a TAP
// device. It has the options of a plain user: SACK, CUBIC, buffers that tune themselves up to 4 MiB.
package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const (
	nic    = 1
	buffer = 4 << 20
)

var tests = map[string]byte{"send": 0, "receive": 1, "rtt": 2, "connect": 3}

// A sample, as the other clients print it.
type sample struct {
	Test     string   `json:"test"`
	Size     uint32   `json:"size"`
	Rate     float64  `json:"rate"`
	MedianUs *float64 `json:"median_us"`
	P99Us    *float64 `json:"p99_us"`
	// Round trips: their times, for those who ask for more than a median (tasuki-bench makes the
	// same of them for all clients), how many requests came with one read, and how many warmed up.
	TimesUs []float64 `json:"times_us,omitempty"`
	OneRead uint32    `json:"one_read,omitempty"`
	WarmUp  uint64    `json:"warm_up,omitempty"`
}

type client struct {
	stack *stack.Stack
	to    tcpip.FullAddress
	test  string
	bytes uint64
	count uint64
	// Seconds of round trips at most.
	most float64
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("tasuki-peer-gvisor: ")
	tap := flag.String("tap", "", "TAP device, there and up")
	connect := flag.String("connect", "", "server, ADDRESS:PORT")
	test := flag.String("test", "", "send, receive, rtt or connect")
	sizes := flag.String("size", "65536", "bytes per write or request, separated by commas")
	bytes := flag.Uint64("bytes", 64<<20, "bytes in all (send, receive)")
	count := flag.Uint64("count", 2000, "round trips or connections")
	most := flag.Float64("most-seconds", math.Inf(1), "end round trips after so many seconds")
	flag.Parse()
	if _, known := tests[*test]; !known || flag.NArg() != 0 {
		log.Fatalf("unknown test %q or arguments %q", *test, flag.Args())
	}
	netstack, err := open(*tap)
	check(err, "opening the stack on "+*tap)
	to, err := net.ResolveTCPAddr("tcp4", *connect)
	check(err, "--connect")
	c := client{
		stack: netstack,
		to:    tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFromSlice(to.IP.To4()), Port: uint16(to.Port)},
		test:  *test, bytes: *bytes, count: *count, most: *most,
	}
	out := json.NewEncoder(os.Stdout)
	for _, word := range strings.Split(*sizes, ",") {
		size, err := strconv.ParseUint(word, 10, 32)
		check(err, "--size")
		s, err := c.measure(uint32(size))
		check(err, *test)
		check(out.Encode(s), "writing the sample")
	}
}

func check(err error, doing string) {
	if err != nil {
		log.Fatalf("%s: %v", doing, err)
	}
}

// open makes the stack on a TAP device.
func open(name string) (*stack.Stack, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, err
	}
	link, err := fdbased.New(&fdbased.Options{
		FDs: []int{fd}, MTU: 1500, EthernetHeader: true,
		Address:            tcpip.LinkAddress("\x02\x00\x00\x00\x00\x01"),
		PacketDispatchMode: fdbased.Readv,
	})
	if err != nil {
		return nil, err
	}
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	sack, cubic := tcpip.TCPSACKEnabled(true), tcpip.CongestionControlOption("cubic")
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: 1 << 20, Max: buffer}
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: 1 << 20, Max: buffer}
	tune := tcpip.TCPModerateReceiveBufferOption(true)
	for _, option := range []tcpip.SettableTransportProtocolOption{&sack, &cubic, &send, &receive, &tune} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return nil, fmt.Errorf("%T: %v", option, err)
		}
	}
	if err := s.CreateNIC(nic, link); err != nil {
		return nil, fmt.Errorf("the interface: %v", err)
	}
	address := tcpip.AddressWithPrefix{Address: tcpip.AddrFrom4([4]byte{10, 218, 1, 2}), PrefixLen: 24}
	protocol := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: address}
	if err := s.AddProtocolAddress(nic, protocol, stack.AddressProperties{}); err != nil {
		return nil, fmt.Errorf("the address: %v", err)
	}
	gateway := tcpip.AddrFrom4([4]byte{10, 218, 1, 1})
	s.SetRouteTable([]tcpip.Route{
		{Destination: address.Subnet(), NIC: nic},
		{Destination: header.IPv4EmptySubnet, Gateway: gateway, NIC: nic},
	})
	return s, nil
}

func (c *client) start(size uint32, total uint64) (net.Conn, error) {
	conn, err := gonet.DialTCP(c.stack, c.to, ipv4.ProtocolNumber)
	if err != nil {
		return nil, err
	}
	// gVisor's sockets start without Nagle's delay (TCP_NODELAY is their default).
	var order [16]byte
	order[0] = tests[c.test]
	binary.LittleEndian.PutUint32(order[4:], size)
	binary.LittleEndian.PutUint64(order[8:], total)
	_, err = conn.Write(order[:])
	return conn, err
}

func (c *client) measure(size uint32) (*sample, error) {
	switch c.test {
	case "send", "receive":
		return c.stream(size)
	case "rtt":
		return c.roundTrips(size)
	default:
		return c.connections(size)
	}
}

func (c *client) stream(size uint32) (*sample, error) {
	total := c.bytes
	if size < 4096 {
		total /= 4
	}
	conn, err := c.start(size, total)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	data := make([]byte, size)
	began := time.Now()
	for left := total; left > 0; {
		part := data[:min(left, uint64(size))]
		var n int
		if c.test == "send" {
			n, err = conn.Write(part)
		} else {
			n, err = conn.Read(part)
		}
		if err != nil {
			return nil, err
		}
		left -= uint64(n)
	}
	if c.test == "send" {
		if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
			return nil, err
		}
	}
	rate := float64(total) / (1 << 20) / time.Since(began).Seconds()
	return &sample{Test: c.test, Size: size, Rate: rate}, nil
}

func (c *client) roundTrips(size uint32) (*sample, error) {
	warmUp := c.count / 10
	conn, err := c.start(size, c.count+warmUp)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	request, answer := make([]byte, size), make([]byte, 4)
	times := make([]float64, 0, c.count)
	var oneRead uint32
	all := time.Now()
	for round := uint64(0); round < c.count+warmUp; round++ {
		began := time.Now()
		if err := exchange(conn, request, answer); err != nil {
			return nil, err
		}
		if round < warmUp {
			continue
		}
		times = append(times, microseconds(began))
		// The answer tells with how many reads the request came.
		if binary.LittleEndian.Uint32(answer) == 1 {
			oneRead++
		}
		if time.Since(all).Seconds() > c.most {
			break
		}
	}
	s := summary(c.test, size, times)
	s.TimesUs, s.OneRead, s.WarmUp = times, oneRead, warmUp
	return s, nil
}

func (c *client) connections(size uint32) (*sample, error) {
	request, answer := make([]byte, size), make([]byte, 4)
	times := make([]float64, 0, c.count)
	warmUp := c.count / 10
	for number := range c.count + warmUp {
		began := time.Now()
		conn, err := c.start(size, 1)
		if err != nil {
			return nil, err
		}
		if err := exchange(conn, request, answer); err != nil {
			return nil, err
		}
		conn.Close()
		if number >= warmUp {
			times = append(times, microseconds(began))
		}
	}
	return summary(c.test, size, times), nil
}

func exchange(conn net.Conn, request, answer []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, answer)
	return err
}

func microseconds(since time.Time) float64 {
	return float64(time.Since(since).Nanoseconds()) / 1e3
}

func summary(test string, size uint32, times []float64) *sample {
	sort.Float64s(times)
	var sum float64
	for _, t := range times {
		sum += t
	}
	at := func(share int) *float64 { return &times[len(times)*share/100] }
	rate := float64(len(times)) * 1e6 / sum
	return &sample{Test: test, Size: size, Rate: rate, MedianUs: at(50), P99Us: at(99)}
}
