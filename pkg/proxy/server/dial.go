package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// dialTimeout limits a connection attempt to one address of the program.
const dialTimeout = 10 * time.Second

// dialer connects to a port of the program. It tries the address that worked last first.
type dialer struct {
	ways []way
	last atomic.Int32
}

// way is one address of the program, with a dialer that has the source address.
type way struct {
	dialer  net.Dialer
	address string
}

func newDialer(addresses []netip.Addr, port uint16) *dialer {
	d := &dialer{}
	for _, address := range addresses {
		w := way{net.Dialer{Timeout: dialTimeout, KeepAlive: -1}, netip.AddrPortFrom(address, port).String()}
		if from, ok := sourceOf(address, addresses); ok {
			w.dialer.LocalAddr, w.dialer.Control = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), choosePortLate
		}
		d.ways = append(d.ways, w)
	}
	return d
}

// sourceOf returns the pod's address from which to dial a loopback address, if the pod has one of that
// family. Programs may trust connections from loopback addresses, which clients of the proxy must not use.
func sourceOf(address netip.Addr, all []netip.Addr) (netip.Addr, bool) {
	loopback := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	i := slices.IndexFunc(all, func(a netip.Addr) bool { return !slices.Contains(loopback, a) && a.Is4() == address.Is4() })
	if i < 0 || !slices.Contains(loopback, address) {
		return netip.Addr{}, false
	}
	return all[i], true
}

// bindAddressNoPort is IP_BIND_ADDRESS_NO_PORT of Linux, for both families.
const bindAddressNoPort = 24

// choosePortLate makes the kernel choose the port at connect. At bind, it would need a port without any
// other connection, including those that ended within the last minute.
func choosePortLate(_, _ string, raw syscall.RawConn) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, bindAddressNoPort, 1) //nolint:gosec // a descriptor
	})
	return errors.Join(err, failed)
}

func (d *dialer) dial(ctx context.Context) (*net.TCPConn, error) {
	last := int(d.last.Load())
	c, err := d.one(ctx, last)
	if err == nil {
		return c, nil
	}
	errs := []error{err}
	for i := range d.ways {
		if i == last {
			continue
		}
		if c, err = d.one(ctx, i); err == nil {
			d.last.Store(int32(i)) //nolint:gosec // there are only a few addresses
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (d *dialer) one(ctx context.Context, i int) (*net.TCPConn, error) {
	c, err := d.ways[i].dialer.DialContext(ctx, "tcp", d.ways[i].address)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// dialTries is the maximum number of connections that are closed to get a descriptor for dial: other
// goroutines may take a descriptor that became free.
const dialTries = 10

// dial connects to the upstream, unless it is connected.
func (c *conn) dial() bool {
	if c.upstream.tcp.Load() != nil {
		return true
	}
	upstream, err := c.connect()
	if err == nil {
		c.upstream.tcp.Store(upstream)
	}
	switch {
	case c.killed.Load(): // end closes upstream if kill ran before Store
		return false
	case err != nil:
		c.notDialled(err)
		c.refuse() // as a closed port does
		return false
	}
	if c.port.ProxyV2 {
		var identity []byte
		if who := c.who.Load(); who != nil && who.Without == "" {
			identity = proxy.HeaderIdentity(who.ID, who.version, who.resumed)
		}
		header := proxy.Header(c.clientAddr(), c.client.tcp.Load().LocalAddr().(*net.TCPAddr).AddrPort(), identity...)
		if _, err := upstream.Write(header); err != nil {
			c.port.counters.upstreamErrors.Add(1)
			return false
		}
	}
	return true
}

// notDialled counts and logs a failure of dial.
func (c *conn) notDialled(err error) {
	if c.port.out != nil {
		c.unreachable(err)
		return
	}
	c.port.counters.upstreamErrors.Add(1)
	c.server.log.warn("cannot connect to the program", "port", c.port.Name, "error", err)
}

// refuse makes the end of the connection a reset for the client.
func (c *conn) refuse() { _ = c.client.tcp.Load().SetLinger(0) }

// connect connects to the upstream, and gives up when the connection is killed: killed connections do not
// count for MaxConnections, and a dial may take longer than Limits.Drain.
func (c *conn) connect() (*net.TCPConn, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c.stopDial.Store(&stop)
	defer c.stopDial.Store(nil) // frees the context
	if c.killed.Load() {        // kill ran before Store
		stop()
	}
	upstream, err := c.port.dial(ctx)
	for tries := 0; errors.Is(err, syscall.EMFILE) && tries < dialTries && c.server.makeRoom(c); tries++ {
		upstream, err = c.port.dial(ctx)
	}
	return upstream, err
}
