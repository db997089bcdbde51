package server

import (
	"crypto/tls"
	"net"
	"sync/atomic"
)

// end is one of the two ends of a connection: the client's or the upstream's. One of them may speak TLS: that of a
// client from outside, or that of a server to which a client in the pod connects.
type end struct {
	tcp atomic.Pointer[net.TCPConn]
	// tls is nil for plaintext, and for TLS that is passed through.
	tls       *tls.Conn
	transport *transport // below tls
}

func (e *end) write(b []byte) error {
	var err error
	if e.tls != nil {
		_, err = e.tls.Write(b)
	} else {
		_, err = e.tcp.Load().Write(b)
	}
	return err
}

// closeWrite ends one direction: with close_notify, if the end speaks TLS, and FIN.
func (e *end) closeWrite() {
	if e.tls != nil {
		_ = e.tls.CloseWrite()
	}
	_ = e.tcp.Load().CloseWrite()
}

// close closes the connection. With reset, the peer gets a TCP reset instead of an ordinary end.
func (e *end) close(reset bool) {
	c := e.tcp.Load()
	if c == nil {
		return
	}
	if reset {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}
