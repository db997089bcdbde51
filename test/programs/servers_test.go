//go:build linux

package programs

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/starttls"
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
		protocol: starttls.MySQL,
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
		args: []string{"--addr={at}", "--port=4222"}, port: 4222, protocol: starttls.NATS,
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
		port: 5432, protocol: starttls.Postgres,
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

// askRedis sends a command to Redis and reads the answer.
func askRedis(t *testing.T, address, command string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, command+"\r\n")
	require.NoError(t, err)
	answer := make([]byte, 5)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", string(answer))
}
