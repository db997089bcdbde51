package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/test/flood"
)

// asks are TLS settings of a client that wants no certificate of the webhook verified.
func asks() *tls.Config { return &tls.Config{InsecureSkipVerify: true} } //nolint:gosec // it attacks

// reviews posts at the webhook's port what the API server never would.
func reviews(ctx context.Context, a *attacker) {
	_, err := a.services().Create(ctx, serviceOf(a.name, evilPort), metav1.CreateOptions{})
	a.count(ctx, err)
	bodies, err := a.bodies()
	if err != nil {
		a.count(ctx, err)
		return
	}
	dialer := &net.Dialer{LocalAddr: flood.Peer(0)}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: asks(), MaxIdleConnsPerHost: 8}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	many(8, func(worker int) {
		a.repeat(ctx, 100*time.Millisecond, func(i int) error { return a.post(ctx, client, bodies[(i+worker)%len(bodies)]) })
	})
}

// bodies returns a pod of 204 KiB whose arguments repeat a variable, and lists of 293 KiB
// of nothing.
func (a *attacker) bodies() ([][]byte, error) {
	pod := podOf("bomb", a.name, evilPort)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 4<<10)}}
	pod.Spec.Containers[0].Args = []string{strings.Repeat("$(A)", 50<<10)}
	bomb, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	const size = 293 << 10
	empty := strings.Repeat("{},", size/3)
	var bodies [][]byte
	for _, object := range []string{
		string(bomb),
		`{"spec":{"containers":[` + empty + `{}]}}`,
		`{"spec":{"volumes":[` + empty + `{}]}}`,
		`{"spec":{"containers":[{"volumeMounts":[` + strings.Repeat("{},", 14_000) + `{}]}]}}`, // as many as are taken
	} {
		bodies = append(bodies, fmt.Appendf(nil,
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","kind":{"version":"v1","kind":"Pod"},`+
				`"resource":{"version":"v1","resource":"pods"},"namespace":%q,"object":%s}}`, a.namespace, object))
	}
	return bodies, nil
}

func (a *attacker) post(ctx context.Context, client *http.Client, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+a.webhook+"/mutate-v1-pod", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP %s", resp.Status)
	}
	return nil
}

// slowReviews keeps connections busy with a request that does not end.
func slowReviews(ctx context.Context, a *attacker) {
	many(200, func(worker int) {
		a.repeat(ctx, 100*time.Millisecond, func(int) error { return a.drip(ctx, flood.Peer(worker%podsOfTenant)) })
	})
}

// drip sends a byte a second until the webhook closes the connection, which is its error.
func (a *attacker) drip(ctx context.Context, from net.Addr) error {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second, LocalAddr: from}, Config: asks()}
	conn, err := dialer.DialContext(ctx, "tcp", a.webhook)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST /mutate-v1-pod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 3<<20); err != nil {
		return err
	}
	for process.Sleep(ctx, time.Second) {
		if _, err := conn.Write([]byte(" ")); err != nil {
			return err
		}
	}
	return ctx.Err()
}
