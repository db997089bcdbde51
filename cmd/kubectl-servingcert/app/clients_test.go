package app

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/hack/process"
)

// lists holds the objects of these tests' API server: Services, pods (the last one has no proxy), a
// client's pod, and a node.
var lists = map[string]string{
	"/api/v1/namespaces/shop/services/web":   `{"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"shop"},"spec":{"selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":"sc-any-8080"},{"name":"https","port":443,"targetPort":"sc-tls-8080"}]}}`,
	"/api/v1/namespaces/shop/services/plain": `{"kind":"Service","apiVersion":"v1","metadata":{"name":"plain","namespace":"shop"},"spec":{"selector":{"app":"web"},"ports":[{"port":80,"targetPort":8080}]}}`,
	"/api/v1/namespaces/shop/services/db":    guardedService,
	"/api/v1/namespaces/shop/services":       `{"kind":"ServiceList","apiVersion":"v1","items":[` + guardedService + `]}`,
	"/api/v1/namespaces/shop/pods": `{"kind":"PodList","apiVersion":"v1","items":[` +
		servingPod("web-1", "servingcert-proxy") + `,` + servingPod("web-2", "servingcert-proxy") + `,` + servingPod("web-old", "other") + `]}`,
	"/api/v1/pods":  `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"cart-7d9-x","namespace":"shop","labels":{"pod-template-hash":"7d9"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart-7d9","uid":"1","controller":true}]},"status":{"phase":"Running","startTime":"2026-11-01T00:00:00Z","podIPs":[{"ip":"10.0.0.7"}]}}]}`,
	"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1"},"status":{"addresses":[{"type":"InternalIP","address":"192.168.0.1"}]}}]}`,
}

// guardedService lists its clients, and selects the same pods.
const guardedService = `{"kind":"Service","apiVersion":"v1","metadata":{"name":"db","namespace":"shop","annotations":{"servingcert.dev/secret-name":"db-tls","servingcert.dev/clients":"watch,shop/cart,shop/gone"}},"spec":{"selector":{"app":"web"},"ports":[{"port":443,"targetPort":"sc-tls-8080"}]}}`

func servingPod(name, sidecar string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","labels":{"app":"web"}},"spec":{"initContainers":[{"name":%q,"restartPolicy":"Always","args":["--admin-address=127.0.0.1:15443","--listen=sc-any-8080=15444:8080","--listen=sc-tls-8080=15445:8080","--clients=/clients/list"]}],"containers":[{"name":"app"}]},"status":{"phase":"Running"}}`, name, sidecar)
}

// answers starts an API server with the lists, and with the answers of the pods' proxies.
func answers(t *testing.T, byPod map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, ok := lists[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, body)
			return
		}
		pod := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods/"), "/portforward")
		body, ok := byPod[pod]
		if !ok || r.Method != http.MethodPost {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			return
		}
		problems, data := <-streams, <-streams
		if _, err := http.ReadRequest(bufio.NewReader(data)); err == nil {
			_, _ = fmt.Fprintf(data, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s", body)
		}
		_ = problems.Close()
		_ = data.Close()
		<-conn.CloseChan()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func looked(since time.Time, peers string) string {
	return fmt.Sprintf(`{"since":%q,"ports":["sc-any-8080"],"clients":[%s]}`, since.Format(time.RFC3339), peers)
}

// askClients runs the command with the answers of the pods.
func askClients(t *testing.T, byPod map[string]string, args ...string) (out string, code int) {
	var text bytes.Buffer
	code = run(t.Context(), append([]string{"clients", "-n", "shop", "--server", answers(t, byPod), "--timeout", process.Soon.String()}, args...), streams{in: strings.NewReader(""), out: &text, err: &text}, DefaultTiming())
	return text.String(), code
}

func TestClientsAreShown(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	ask := func(byPod map[string]string, args ...string) (out string, code int) {
		return askClients(t, byPod, args...)
	}
	long := time.Now().Add(-30 * 24 * time.Hour).UTC().Truncate(time.Second)
	recent := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)

	seen := fmt.Sprintf(`{"port":"sc-any-8080","address":"10.0.0.7","first":%q,"last":%q,"connections":3,"kind":"http"},{"port":"sc-any-8080","address":"192.168.0.1","first":%[1]q,"last":%[1]q,"connections":1,"kind":"other\u001b"}`, long.Format(time.RFC3339), recent.Format(time.RFC3339))
	out, code := ask(map[string]string{"web-1": looked(long, seen), "web-2": looked(recent, "")}, "web")
	assert.Equal(t, exitError, code)
	assert.Equal(t, strings.NewReplacer("LONG", long.Format(time.RFC3339), "RECENT", recent.Format(time.RFC3339)).Replace(
		`Service shop/web, port sc-any-8080: 2 pods, all recording since RECENT
CLIENT                                                  LAST                  FIRST                 CONNECTIONS  KIND         ADDRESSES
shop Deployment/cart                                    RECENT  LONG  3            http         10.0.0.7
node n1: a pod on its network, or traffic from outside  LONG  LONG  1            other\u001b  192.168.0.1
plaintext in the last 7 days from shop Deployment/cart: move them to TLS
`), out)

	evicted := strings.TrimSuffix(looked(long, ""), "}") + fmt.Sprintf(`,"evicted":{"sc-any-8080":{"clients":3,"last":%q}}}`, recent.Format(time.RFC3339))
	out, code = ask(map[string]string{"web-1": looked(long, ""), "web-2": evicted}, "web")
	assert.Equal(t, exitError, code)
	assert.Contains(t, out, "\nThe proxies evicted addresses 3 times; the last of these was seen at "+recent.Format(time.RFC3339)+".\nplaintext in the last 7 days from addresses that the proxies no longer list")

	out, code = ask(map[string]string{"web-1": looked(long, ""), "web-2": looked(long, "")}, "service/web")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, "\nno plaintext client for 7 days: use sc-tls-8080, which the pods already have\n")

	out, code = ask(map[string]string{"web-1": looked(long, ""), "web-2": "?"}, "web", "-o", "json")
	assert.Equal(t, exitError, code)
	assert.Contains(t, out, `"kind": "Clients"`)
	assert.Contains(t, out, `"verdict": "unknown"`)
	assert.Contains(t, out, `"web-2: must be a list of clients`)

	out, code = ask(nil, "plain")
	assert.Equal(t, exitError, code)
	assert.Equal(t, "kubectl servingcert: Service shop/plain has no port with targetPort sc-any-PORT: no proxy records plaintext to its other ports, or who calls its ports with targetPort sc-tls-PORT if the Service has no annotation servingcert.dev/clients\n", out)
}

// The golden texts have LONG and RECENT for the two times.
func TestCallersAreShown(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	long := time.Now().Add(-30 * 24 * time.Hour).UTC().Truncate(time.Second)
	recent := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	at := strings.NewReplacer("LONG", long.Format(time.RFC3339), "RECENT", recent.Format(time.RFC3339))
	guarded := func(callers, more string) string {
		return at.Replace(`{"since":"LONG","ports":["sc-any-8080"],"clients":[],"guarded":[{"port":"sc-tls-8080","watch":true,"since":"LONG"}],"callers":[` + callers + `]` + more + `}`)
	}
	const cart = `{"identity":"spiffe://example.com/ns/shop/sa/cart","port":"sc-tls-8080","first":"LONG","last":"RECENT","connections":3}`
	const report = `{"identity":"spiffe://example.com/ns/batch/sa/report","port":"sc-tls-8080","first":"LONG","last":"RECENT","connections":1,"wouldRefuse":1,"reason":"not_listed"}`
	const stranger = `{"address":"10.0.0.7","port":"sc-tls-8080","first":"LONG","last":"LONG","connections":1,"reason":"no_certificate"}`
	plain := guarded("", "")

	out, code := askClients(t, map[string]string{"web-1": guarded(cart+","+stranger, ""), "web-2": guarded(report+","+cart, "")}, "db")
	assert.Equal(t, exitError, code)
	assert.Equal(t, at.Replace(`Service shop/db, port sc-tls-8080, who calls: seen by 2 of 2 pods, all recording since LONG
CLIENT                             LISTED              LAST                  FIRST                 CONNECTIONS  REFUSED  ADDRESSES
batch/report                       no: not_listed      RECENT  LONG  1            0        -
shop/cart                          yes                 RECENT  LONG  6            0        -
no identity: shop Deployment/cart  no: no_certificate  LONG  LONG  1            0        10.0.0.7
without watch, the list would refuse batch/report, seen in the last 7 days: add them to annotation servingcert.dev/clients, or move them away

Annotation servingcert.dev/clients: entries that nobody used since RESULT: shop/gone
`), strings.Replace(out, since(out), "RESULT", 1))

	out, code = askClients(t, map[string]string{"web-1": guarded(cart, ""), "web-2": plain}, "db", "--for", "336h", "-o", "json")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, `"verdict": "none"`)
	assert.Contains(t, out, `"name": "shop/cart"`)
	assert.Contains(t, out, `"unused": true`)

	out, code = askClients(t, map[string]string{"web-1": guarded(cart, ""), "web-2": "?"}, "db")
	assert.Equal(t, exitError, code)
	assert.Contains(t, out, "seen by 1 of 2 pods, ")
	assert.Contains(t, out, "not all pods of the Service have answered")
	assert.Contains(t, out, "whether an entry is unused is unknown: not all pods of the Service have answered\n")
	assert.Contains(t, out, "No answer: web-2: must be a list of clients: ")

	out, code = askClients(t, map[string]string{"web-1": plain, "web-2": guarded(cart, `,"evictedCallers":{"sc-tls-8080":{"clients":3,"last":"RECENT"}}`)}, "db")
	assert.Equal(t, exitError, code)
	assert.Contains(t, out, at.Replace("\nThe proxies evicted identities 3 times; the last of these was seen at RECENT.\nthe proxies no longer list all identities"))

	out, code = askClients(t, map[string]string{"web-1": plain, "web-2": guarded(`{"identity":"spiffe://example.com/ns/x\u001b/sa/y","port":"sc-tls-8080"}`, "")}, "db")
	assert.Equal(t, exitError, code)
	assert.Contains(t, out, `No answer: web-2: callers[0].identity: "spiffe://example.com/ns/x\x1b/sa/y"`)
	assert.NotContains(t, out, "\x1b")
}

// since returns the time after "since" in the last line.
func since(out string) string {
	_, rest, _ := strings.Cut(out, "nobody used since ")
	at, _, _ := strings.Cut(rest, ": ")
	return at
}

// TestRowsOfClientsAreBounded: pods may answer with many clients.
func TestRowsOfClientsAreBounded(t *testing.T) {
	found := status.Clients{Namespace: "shop", Service: "db", Ports: []status.ClientsPort{{}}, Guarded: []status.CallersPort{{}}}
	lines := func() int {
		var out strings.Builder
		require.NoError(t, writeClients(screen{to: &out}, found))
		if n := len(found.Ports[0].Clients); n > maxRows {
			assert.Equal(t, 2, strings.Count(out.String(), fmt.Sprintf("\nand %d more: -o json has all\n", n-maxRows)))
		} else {
			assert.NotContains(t, out.String(), "more")
		}
		return strings.Count(out.String(), "\n")
	}
	for range maxRows {
		found.Ports[0].Clients = append(found.Ports[0].Clients, status.Client{Name: "a"})
		found.Guarded[0].Callers = append(found.Guarded[0].Callers, status.Caller{Name: "a/b"})
	}
	full := lines()
	for range maxRows {
		found.Ports[0].Clients = append(found.Ports[0].Clients, status.Client{Name: "a"})
		found.Guarded[0].Callers = append(found.Guarded[0].Callers, status.Caller{Name: "a/b"})
	}
	assert.Equal(t, full+2, lines())
}
