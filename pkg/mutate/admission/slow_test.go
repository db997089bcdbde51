package admission

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowSender is a connection that has announced a review of maxReview bytes, and whose
// handler has begun to read it.
type slowSender struct {
	net.Conn
	answers *bufio.Reader
}

func newSlowSender(t *testing.T, server *httptest.Server) slowSender {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", Path, maxReview)
	require.NoError(t, err)
	s := slowSender{conn, bufio.NewReader(conn)}
	line, err := s.answers.ReadString('\n') // comes with the first read of the body
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = s.answers.ReadString('\n')
	require.NoError(t, err)
	return s
}

// send sends n bytes of the review.
func (s slowSender) send(t *testing.T, n int) {
	t.Helper()
	_, err := s.Write(bytes.Repeat([]byte(" "), n))
	require.NoError(t, err)
}

func startServer(t *testing.T) *httptest.Server {
	t.Helper()
	h, _ := (&world{}).handler(t, logr.Discard())
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// answered asks for an ordinary review.
func answered(t *testing.T, server *httptest.Server) {
	t.Helper()
	body, err := json.Marshal(reviewOf(t, plainPod()))
	require.NoError(t, err)
	resp, err := http.Post(server.URL+Path, "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
}

// TestStrangersWriteNoLog: whoever reaches the port can send what is no review, as often as
// they like.
func TestStrangersWriteNoLog(t *testing.T) {
	var lines []string
	h, _ := (&world{}).handler(t, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	for _, body := range []string{"", "{", "[]", `{"kind":"AdmissionReview"}`} {
		assert.GreaterOrEqual(t, send(h, strings.NewReader(body)).Code, 400)
	}
	assert.Empty(t, lines)
}

// TestWhoSendsNothingHoldsUpNobody: what counts is what was received, and not what was
// announced.
func TestWhoSendsNothingHoldsUpNobody(t *testing.T) {
	server := startServer(t)
	for range 50 {
		newSlowSender(t, server).send(t, 10)
	}
	answered(t, server)
}

// TestWhoStopsSendingIsCutOff once others need the place.
func TestWhoStopsSendingIsCutOff(t *testing.T) {
	server := startServer(t)
	var all []slowSender
	for range 2 * maxReading / maxReview {
		s := newSlowSender(t, server)
		s.send(t, maxReview-1)
		all = append(all, s)
	}
	resp, err := http.ReadResponse(all[0].answers, nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), "this one was being read for longest")
	answered(t, server)
}
