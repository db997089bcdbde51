//go:build e2e && linux

package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sent is the beginning of what a pod sent on a TCP connection that it opened.
type sent struct {
	to    netip.AddrPort
	first []byte
}

// sends returns the beginning of what the pod of a process sends on each TCP connection that it opens on its network, and
// not on its loopback, until ctx ends.
func sends(ctx context.Context, pid int) ([]sent, error) {
	socket, err := packets(pid)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(socket) // it only reads
	flows := map[[2]netip.AddrPort]*sent{}
	b := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, from, err := syscall.Recvfrom(socket, b, 0)
		link, isLink := from.(*syscall.SockaddrLinklayer)
		switch {
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return nil, err
		case !isLink || link.Pkttype != syscall.PACKET_OUTGOING || link.Hatype == syscall.ARPHRD_LOOPBACK:
			continue
		}
		flow, flags, payload, ok := segment(b[:n])
		if !ok {
			continue
		}
		const syn, ack = 2, 16
		if flags&(syn|ack) == syn {
			flows[flow] = &sent{to: flow[1]}
		}
		if f := flows[flow]; f != nil && f.first == nil && len(payload) > 0 {
			f.first = append([]byte{}, payload[:min(len(payload), 16)]...)
		}
	}
	var out []sent
	for _, f := range flows {
		if f.first != nil {
			out = append(out, *f)
		}
	}
	return out, nil
}

// packets opens a socket that receives all packets of the network of a process.
func packets(pid int) (socket int, err error) {
	file := fmt.Sprintf("/proc/%d/ns/net", pid)
	namespace, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", file, err)
	}
	defer unix.Close(namespace) // nothing was written
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine, in the other network
		if err = unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
			return
		}
		const all = syscall.ETH_P_ALL<<8 | syscall.ETH_P_ALL>>8 // in the order of bytes of the network
		if socket, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, all&0xffff); err != nil {
			return
		}
		often := syscall.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
		err = syscall.SetsockoptTimeval(socket, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &often)
	}()
	<-done
	return socket, err
}

// segment reads the addresses, flags and payload of a TCP segment in a packet of IPv4 or IPv6 (RFC 791, 8200, 9293).
func segment(b []byte) (flow [2]netip.AddrPort, flags byte, payload []byte, ok bool) {
	const tcp = 6
	var from, to []byte
	switch {
	case len(b) >= 20 && b[0]>>4 == 4 && b[9] == tcp:
		from, to = b[12:16], b[16:20]
		b = b[min(len(b), int(b[0]&15)*4):min(len(b), int(binary.BigEndian.Uint16(b[2:])))]
	case len(b) >= 40 && b[0]>>4 == 6 && b[6] == tcp:
		from, to, b = b[8:24], b[24:40], b[40:]
	default:
		return flow, 0, nil, false
	}
	if len(b) < 20 || len(b) < int(b[12]>>4)*4 {
		return flow, 0, nil, false
	}
	for i, address := range [][]byte{from, to} {
		a, _ := netip.AddrFromSlice(address)
		flow[i] = netip.AddrPortFrom(a, binary.BigEndian.Uint16(b[2*i:]))
	}
	return flow, b[13], b[int(b[12]>>4)*4:], true
}
