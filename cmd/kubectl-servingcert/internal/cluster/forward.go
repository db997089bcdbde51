package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/servingcert/servingcert/pkg/proxy/clients"
)

// forwarder reaches ports of pods as kubectl port-forward does, with the permissions of the user.
type forwarder struct {
	config *rest.Config
	client kubernetes.Interface
}

// dialer returns a dialer for the pod: SPDY over WebSocket, or plain SPDY if the API server or a
// proxy before it does not support that.
func (f forwarder) dialer(namespace, pod string) (httpstream.Dialer, error) {
	url := f.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, f.config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(f.config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	return portforward.NewFallbackDialerForStreaming(tunnel, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// connect returns a connection to the pod. A dialer takes no context, so a late connection is
// closed.
func (f forwarder) connect(ctx context.Context, namespace, pod string) (httpstream.Connection, error) {
	dialer, err := f.dialer(namespace, pod)
	if err != nil {
		return nil, err
	}
	type dialled struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialled{conn, err}
	}()
	select {
	case d := <-done:
		return d.conn, d.err
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				_ = d.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// get returns the pod's answer to a request for the path at a port on its loopback.
func (f forwarder) get(ctx context.Context, namespace, pod string, port int, path string) ([]byte, error) {
	conn, err := f.connect(ctx, namespace, pod)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // all was read
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	body, err := exchange(conn, port, path)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return body, err
}

// maxMessage is the maximum size of an error of the kubelet, in bytes.
const maxMessage = 1 << 10

// streams opens the two streams of a forwarded port: what it sends and receives, and the kubelet's
// error about it.
func streams(conn httpstream.Connection, port int) (data, problems httpstream.Stream, err error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	problems, err = conn.CreateStream(headers)
	if err != nil {
		return nil, nil, err
	}
	_ = problems.Close() // nothing is written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err = conn.CreateStream(headers)
	return data, problems, err
}

// exchange makes one request over the two streams of a forwarded port.
func exchange(conn httpstream.Connection, port int, path string) ([]byte, error) {
	data, problems, err := streams(conn, port)
	if err != nil {
		return nil, err
	}
	defer func() { _ = data.Reset() }()
	request := "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(data, request); err != nil {
		return nil, problemOr(problems, data, err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(io.LimitReader(data, 2*clients.MaxSize)), nil)
	if err != nil {
		return nil, problemOr(problems, data, err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(answer.Body, clients.MaxSize+1))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	return body, err
}

// problemOr returns the kubelet's error about a port that does not answer, or err.
func problemOr(problems, data httpstream.Stream, err error) error {
	_ = data.Reset() // the kubelet sends its error when the port is closed
	message, readErr := io.ReadAll(io.LimitReader(problems, maxMessage))
	if text := strings.TrimSpace(string(message)); readErr == nil && text != "" {
		return errors.New(text)
	}
	return err
}

// open returns a connection to a port on the pod's loopback.
func (f forwarder) open(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	conn, err := f.connect(ctx, namespace, pod)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() }) // of the dial, which ends with it
	data, problems, err := streams(conn, port)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	// A stream has no deadlines, and net.Pipe has.
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(data, far); _ = conn.Close() }()
	go func() { _, _ = io.Copy(far, data); _ = far.Close() }()
	return &forwarded{Conn: near, problems: problems}, nil
}

// forwarded is a connection to a port of a pod.
type forwarded struct {
	net.Conn
	problems io.Reader // the kubelet's error, if the port does not answer
}

// Read implements net.Conn. The kubelet accepts each connection, and tells afterwards that nothing
// listens at the port.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	message, _ := io.ReadAll(io.LimitReader(f.problems, maxMessage))
	if strings.Contains(string(message), "refused") {
		return 0, syscall.ECONNREFUSED
	}
	return 0, err
}
