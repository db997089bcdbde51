//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/test/e2e/handshake"
)

const clientsNamespace = "e2e-clients"

// clients are the pods of clients.yaml, by the names of their Deployments.
var clients = []string{attentive, ofOld, clusterWide}

const (
	attentive   = "attentive"    // reads the bundle for each handshake
	ofOld       = "of-old"       // reads the bundle once, at its start
	clusterWide = "cluster-wide" // reads the ClusterTrustBundle for each handshake
	exchanging  = "exchanging"   // as attentive; used by scene protocols only
	connected   = "connected"    // its proxy connects to the programs of scene protocols
	unchanged   = "unchanged"    // curl, psql and others, as connected
	families    = "families"     // its proxy connects to the servers of scene dualstack
)

// proxy sends a request to a port of a pod through the API server.
func (c *cluster) proxy(method *rest.Request, namespace, pod string, port int, path string) *rest.Request {
	return method.Namespace(namespace).Resource("pods").Name(pod + ":" + strconv.Itoa(port)).SubResource("proxy").Suffix(path)
}

// clientPod returns the pod of a client.
func (c *cluster) clientPod(ctx context.Context, name string) (string, error) {
	pods, err := c.pods(ctx, clientsNamespace, map[string]string{"app": name})
	if err != nil {
		return "", err
	}
	if len(pods) != 1 {
		return "", fmt.Errorf("client %s has %d pods, want 1", name, len(pods))
	}
	if s := pods[0].Status.ContainerStatuses; len(s) != 1 || s[0].RestartCount > 0 {
		return "", fmt.Errorf("client %s was restarted and lost its counts", name)
	}
	return pods[0].Name, nil
}

// follow makes all clients connect to these targets from now on.
func (c *cluster) follow(ctx context.Context, targets []handshake.Target) error {
	for _, name := range clients {
		if err := c.ask(ctx, name, http.MethodPut, "targets", targets); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a request to a client, and returns an error if the client reports one.
func (c *cluster) ask(ctx context.Context, name, verb, path string, content any) error {
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	pod, err := c.clientPod(ctx, name)
	if err != nil {
		return err
	}
	answer, err := c.proxy(c.clients.CoreV1().RESTClient().Verb(verb), clientsNamespace, pod, 8080, path).Body(body).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("%w: %s", err, answer)
	}
	return nil
}

// report returns a client's report.
func (c *cluster) report(ctx context.Context, name string) (handshake.Report, error) {
	var report handshake.Report
	pod, err := c.clientPod(ctx, name)
	if err != nil {
		return report, err
	}
	data, err := c.proxy(c.clients.CoreV1().RESTClient().Get(), clientsNamespace, pod, 8080, "report").DoRaw(ctx)
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(data, &report)
}

// fetch makes the attentive client GET a URL, resolved by the cluster's DNS, with the bundle as its
// trusted roots.
func (c *cluster) fetch(ctx context.Context, url string) (handshake.Response, error) {
	var response handshake.Response
	body, err := json.Marshal(handshake.Request{URL: url})
	if err != nil {
		return response, err
	}
	pod, err := c.clientPod(ctx, attentive)
	if err != nil {
		return response, err
	}
	data, err := c.proxy(c.clients.CoreV1().RESTClient().Post(), clientsNamespace, pod, 8080, "fetch").Body(body).DoRaw(ctx)
	if err != nil {
		return response, err
	}
	if err := json.Unmarshal(data, &response); err != nil {
		return response, err
	}
	if response.Err != "" {
		return response, fmt.Errorf("GET %s: %s", url, response.Err)
	}
	return response, nil
}

// fetches returns nil if a client pod gets a response from the URL that begins with body, with this
// leaf, or any if it is empty, and a certificate for the name.
func (c *cluster) fetches(ctx context.Context, url, body, leaf, name string) error {
	r, err := c.fetch(ctx, url)
	switch {
	case err != nil:
		return err
	case !strings.HasPrefix(r.Body, body):
		return fmt.Errorf("GET %s: status %d, %q; want %q", url, r.Status, r.Body, body)
	case leaf != "" && r.Leaf != leaf:
		return fmt.Errorf("GET %s: serves leaf %s; want %s", url, r.Leaf, leaf)
	case !slices.Contains(r.Names, name):
		return fmt.Errorf("GET %s: its certificate is for %v; want %s", url, r.Names, name)
	}
	return nil
}
