//go:build linux

package programs

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// servers are programs with flags or variables of their own. Those without a source are
// Debian's.
var servers = []program{
	{
		name: "coturn", command: []string{"turnserver"}, executable: "/usr/bin/coturn",
		args: []string{"-n", "--listening-ip={at}", "--no-udp", "--no-dtls", "--no-cli", "--userdb={work}/turn.db", "--log-file=stdout", "--pidfile={work}/pid"},
		port: 5349, plain: 3478,
	},
	{
		name: "go-httpbin", image: "ghcr.io/mccutchen/go-httpbin:2.26.0", source: small, executable: "go-httpbin",
		args: []string{"-host={at}", "-port=8080"}, port: 8080,
	},
	{
		name: "gotty", command: []string{"gotty"}, source: small, executable: "gotty",
		args: []string{"--address={at}", "--port=8080", "/usr/bin/cat"}, port: 8080,
	},
	{
		name: "gunicorn", command: []string{"gunicorn"}, executable: "/usr/bin/gunicorn",
		files: map[string]string{"web.py": "def app(environ, start_response):\n    start_response('200 OK', [])\n    return []\n"},
		args:  []string{"--chdir={work}", "--bind={at}:8000", "--worker-tmp-dir={work}", "web:app"}, port: 8000,
	},
	{
		name: "hypercorn", command: []string{"hypercorn"}, executable: "/usr/bin/hypercorn",
		files: map[string]string{"web.py": asgi}, args: []string{"--bind={at}:8000", "web:app"},
		env: []corev1.EnvVar{{Name: "PYTHONPATH", Value: "{work}"}}, port: 8000,
	},
	{
		name: "mariadb", image: "docker.io/library/mariadb:10.11", executable: "/usr/sbin/mariadbd",
		prepare: func(t *testing.T, s *site) {
			s.run(t, "/usr/bin/mariadb-install-db", "--no-defaults", "--force", "--auth-root-authentication-method=normal", "--skip-test-db", "--datadir="+s.dir+"/data")
		},
		args: []string{"--bind-address={at}", "--datadir={work}/data", "--socket={work}/socket", "--pid-file={work}/pid"}, port: 3306,
		hello: helloMySQL,
		ask: func(t *testing.T, s *site) {
			s.run(t, "/usr/bin/mariadb", "--no-defaults", "--user=root", "--socket="+s.dir+"/socket", "--execute=FLUSH SSL")
		},
	},
	{
		name: "minio", image: "quay.io/minio/minio:latest", source: minio, executable: "minio",
		args: []string{"server", "{work}/data", "--address={at}:9000", "--console-address={at}:9001"},
		env:  []corev1.EnvVar{{Name: "MINIO_UPDATE", Value: "off"}}, // it does not ask for updates
		port: 9000,
	},
	{
		name: "nats-server", image: "docker.io/library/nats:2.9.10", executable: "/usr/sbin/nats-server",
		args: []string{"--addr={at}", "--port=4222"}, port: 4222, hello: helloNATS,
	},
	{
		name: "podinfo", command: []string{"./podinfo"}, source: small, executable: "podinfo",
		args: []string{"--host={at}", "--port=9898"}, port: 9899, plain: 9898,
	},
	{
		name: "postgres", image: "docker.io/library/postgres:15", executable: "/usr/lib/postgresql/15/bin/postgres", fsGroup: true,
		prepare: func(t *testing.T, s *site) {
			s.run(t, "/usr/lib/postgresql/15/bin/initdb", "--no-sync", "--auth=trust", "--username=postgres", "--pgdata="+s.dir+"/data")
		},
		args: []string{"-c", "listen_addresses={at}", "-c", "unix_socket_directories={work}"}, env: []corev1.EnvVar{{Name: "PGDATA", Value: "{work}/data"}},
		port: 5432, hello: helloPostgres,
	},
	{
		name: "redis", image: "docker.io/library/redis:7", executable: "/usr/bin/redis-server",
		args: []string{"--bind", "{at}", "--dir", "{work}"}, port: 6380, plain: 6379,
		ask: func(t *testing.T, s *site) {
			askRedis(t, s.at+":6379", "CONFIG SET tls-cert-file "+s.dir+"/certificate/tls.crt")
		},
	},
	{
		name: "redis-exporter", image: "docker.io/oliver006/redis_exporter:v1.45.0", executable: "/usr/bin/prometheus-redis-exporter",
		args: []string{"-web.listen-address={at}:9121"}, port: 9121,
	},
	{
		name: "registry", image: "docker.io/library/registry:2", executable: "/usr/bin/docker-registry",
		files: map[string]string{"registry.yml": "version: 0.1\nstorage: {inmemory: {}}\nhttp: {addr: ':5000'}\n"},
		args:  []string{"serve", "{work}/registry.yml"}, env: []corev1.EnvVar{{Name: "REGISTRY_HTTP_ADDR", Value: "{at}:5000"}}, port: 5000,
	},
	{
		name: "rest-server", command: []string{"rest-server"}, source: small, executable: "rest-server",
		args: []string{"--path={work}/data", "--listen={at}:8000", "--no-auth"}, port: 8000,
	},
	{
		name: "uvicorn", command: []string{"uvicorn"}, executable: "/usr/bin/uvicorn",
		files: map[string]string{"web.py": asgi}, args: []string{"--app-dir={work}", "--host={at}", "--port=8000", "web:app"}, port: 8000,
	},
	{
		name: "victoria-metrics", image: "docker.io/victoriametrics/victoria-metrics:v1.117.0", source: small, executable: "victoria-metrics",
		args: []string{"-storageDataPath={work}/data", "-httpListenAddr={at}:8428", "-memory.allowedBytes=100MB"}, port: 8428,
	},
	{
		name: "websockify", command: []string{"websockify"}, executable: "/usr/bin/websockify",
		args: []string{"{at}:6080", "127.0.0.1:1"}, port: 6080,
	},
}

// asgi is a Python program that answers requests.
const asgi = `async def app(scope, receive, send):
    if scope['type'] != 'http':
        return
    await send({'type': 'http.response.start', 'status': 200, 'headers': []})
    await send({'type': 'http.response.body', 'body': b''})
`

// helloPostgres asks for TLS: https://www.postgresql.org/docs/current/protocol-flow.html
func helloPostgres(conn net.Conn) error {
	if _, err := conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		return err
	}
	answer := make([]byte, 1)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if answer[0] != 'S' {
		return errPlaintext
	}
	return nil
}

// helloMySQL reads the server's greeting and asks for TLS:
// https://mariadb.com/kb/en/connection/
func helloMySQL(conn net.Conn) error {
	header := make([]byte, 4)
	if _, err := io.ReadFull(conn, header); err != nil {
		return err
	}
	greeting := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	if _, err := io.ReadFull(conn, greeting); err != nil {
		return err
	}
	_, rest, found := strings.Cut(string(greeting[1:]), "\x00") // after the version of the protocol: the server's version
	if !found || len(rest) < 15 {
		return fmt.Errorf("greeting of %d bytes", len(greeting))
	}
	const ssl, protocol41, secureConnection = 0x800, 0x200, 0x8000
	if capabilities := int(rest[13]) | int(rest[14])<<8; capabilities&ssl == 0 {
		return errPlaintext
	}
	request := make([]byte, 4+32)
	request[0], request[3] = 32, 1
	request[4], request[5] = (ssl|protocol41|secureConnection)&0xff, (ssl|protocol41|secureConnection)>>8
	request[11], request[12] = 1, 33 // packets of up to 16 MiB; utf8
	_, err := conn.Write(request)
	return err
}

// helloNATS reads the line with which the server begins, before TLS:
// https://docs.nats.io/reference/reference-protocols/nats-protocol
func helloNATS(conn net.Conn) error {
	for char := make([]byte, 1); char[0] != '\n'; {
		if _, err := io.ReadFull(conn, char); err != nil {
			return err
		}
	}
	return nil
}

// askRedis sends a command to Redis and reads the answer.
func askRedis(t *testing.T, address, command string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(dialTime)))
	_, err = io.WriteString(conn, command+"\r\n")
	require.NoError(t, err)
	answer := make([]byte, 5)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", string(answer))
}
