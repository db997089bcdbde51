package handshake

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
)

// exchanges are the requests of clients of a protocol, by [Target.Exchange]. Each uses a new connection.
var exchanges = map[string]func(ctx context.Context, c *connector) error{
	"":                    nothing,
	"grpc":                callAndStream,
	"http":                get,
	"postgres":            func(ctx context.Context, c *connector) error { return selectOne(ctx, c, false) },
	"postgres-sslrequest": func(ctx context.Context, c *connector) error { return selectOne(ctx, c, true) },
	"redis":               setAndGet,
	"websocket":           echo,
}

// connector connects to a target.
type connector struct {
	target Target
	dialer *net.Dialer
	config *tls.Config
	leaf   *x509.Certificate // of the last handshake
}

func (c *connector) open(ctx context.Context) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, "tcp", c.target.Address)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	return conn, err
}

// secure makes a handshake, unless the target speaks plaintext, and offers the protocols.
func (c *connector) secure(ctx context.Context, conn net.Conn, protocols ...string) (net.Conn, error) {
	if c.target.Plaintext {
		return conn, nil
	}
	config := c.config.Clone()
	config.NextProtos = protocols
	secured := tls.Client(conn, config)
	return secured, secured.HandshakeContext(ctx)
}

// connect opens a connection and secures it.
func (c *connector) connect(ctx context.Context, protocols ...string) (net.Conn, error) {
	conn, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	secured, err := c.secure(ctx, conn, protocols...)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secured, nil
}

// nothing makes no request. It ignores errors of closing, as the server may have closed the connection.
func nothing(ctx context.Context, c *connector) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	_ = conn.Close()
	return nil
}

// get requests a document that contains hello, and offers a browser's protocols.
func get(ctx context.Context, c *connector) error {
	conn, err := c.connect(ctx, "h2", "http/1.1")
	if err != nil {
		return err
	}
	defer closeQuietly(conn)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.target.Name+"/", http.NoBody)
	if err != nil {
		return err
	}
	request.Close = true
	if err := request.Write(conn); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return err
	}
	defer closeQuietly(response.Body)
	body, err := io.ReadAll(io.LimitReader(response.Body, bodyLimit))
	if err == nil && (response.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), "hello")) {
		err = fmt.Errorf("status %d, %q; want hello", response.StatusCode, body)
	}
	return err
}

// setAndGet sets and reads a value in Redis.
func setAndGet(ctx context.Context, c *connector) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer closeQuietly(conn)
	return converse(conn, "SET key value\r\nGET key\r\n", "+OK\r\n$5\r\nvalue\r\n")
}

// converse writes a text and compares the answer.
func converse(conn net.Conn, say, want string) error {
	if _, err := io.WriteString(conn, say); err != nil {
		return err
	}
	answer := make([]byte, len(want))
	n, err := io.ReadFull(conn, answer)
	if string(answer) != want {
		return errors.Join(err, fmt.Errorf("answered %q; want %q", answer[:n], want))
	}
	return nil
}

// Messages of PostgreSQL's protocol, version 3.
const (
	sslRequest      = "\x00\x00\x00\x08\x04\xd2\x16\x2f"
	startup         = "\x00\x00\x00\x29\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
	password        = "p\x00\x00\x00\x0bsecret\x00"
	query           = "Q\x00\x00\x00\x0dSELECT 1\x00"
	askedPassword   = 3 // the kind of an AuthenticationCleartextPassword
	messagesAtMost  = 64
	messageSizeMost = 1 << 16
)

// selectOne logs in with a password, which the server must request from network clients, and runs SELECT 1.
func selectOne(ctx context.Context, c *connector, request bool) error {
	conn, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer closeQuietly(conn)
	if request {
		if err := converse(conn, sslRequest, "S"); err != nil {
			return err
		}
	}
	if conn, err = c.secure(ctx, conn, "postgresql"); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, startup); err != nil {
		return err
	}
	asked, answer := false, ""
	for range messagesAtMost {
		kind, body, err := readMessage(conn)
		if err != nil {
			return err
		}
		say := ""
		switch {
		case kind == 'E':
			return fmt.Errorf("PostgreSQL: %q", body)
		case kind == 'R' && len(body) == 4 && body[3] == askedPassword:
			asked, say = true, password
		case kind == 'D':
			answer = string(body)
		case kind == 'Z' && answer == "":
			say = query
		case kind == 'Z':
			const one = "\x00\x01\x00\x00\x00\x011" // one column, of one character
			if answer != one || !asked {
				return fmt.Errorf("SELECT 1: answered %q, password asked for: %t; want %q, true", answer, asked, one)
			}
			_, err = io.WriteString(conn, "X\x00\x00\x00\x04")
			return err
		}
		if _, err := io.WriteString(conn, say); err != nil {
			return err
		}
	}
	return errors.New("PostgreSQL: too many messages")
}

func readMessage(conn net.Conn) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > messageSizeMost {
		return 0, nil, fmt.Errorf("PostgreSQL: message %q of %d bytes", head[0], size)
	}
	body = make([]byte, size-4)
	_, err = io.ReadFull(conn, body)
	return head[0], body, err
}

// callAndStream requests the health of a gRPC server, and its services over a bidirectional stream. The address is
// resolved and dialed as gRPC's clients do it by default.
func callAndStream(ctx context.Context, c *connector) error {
	secured := insecure.NewCredentials()
	if !c.target.Plaintext {
		secured = credentials.NewTLS(c.config)
	}
	conn, err := grpc.NewClient(c.target.Address, grpc.WithTransportCredentials(secured))
	if err != nil {
		return err
	}
	defer closeQuietly(conn)
	health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("gRPC: health is %s", health.GetStatus())
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return err
	}
	ask := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
	for range 2 {
		if err := stream.Send(ask); err != nil {
			return err
		}
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		if len(answer.GetListServicesResponse().GetService()) == 0 {
			return fmt.Errorf("gRPC: no services in %s", answer)
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("gRPC: the stream did not end: %w", err)
	}
	return nil
}

// echo sends a message over a WebSocket, and receives it again.
func echo(ctx context.Context, c *connector) error {
	scheme := "wss://"
	if c.target.Plaintext {
		scheme = "ws://"
	}
	dialer := websocket.Dialer{
		TLSClientConfig: c.config,
		NetDialContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return c.open(ctx) },
	}
	conn, response, err := dialer.DialContext(ctx, scheme+c.target.Name+"/", nil)
	if err != nil {
		return err
	}
	defer closeQuietly(response.Body)
	defer closeQuietly(conn)
	const say = "hello"
	if err := conn.WriteMessage(websocket.TextMessage, []byte(say)); err != nil {
		return err
	}
	kind, message, err := conn.ReadMessage()
	if err == nil && (kind != websocket.TextMessage || string(message) != say) {
		err = fmt.Errorf("WebSocket: message %d, %q; want %q", kind, message, say)
	}
	return err
}

// closeQuietly closes a connection that the server may have closed before.
func closeQuietly(c io.Closer) { _ = c.Close() }
