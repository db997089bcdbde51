package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/flood"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// crashWords has pods crash again and again, with the status that the webhook would have written for
// another pod, each time with other words that are as long as the API server takes, and as pods of
// another template, so that each is new. The tenant may write what is a kubelet's part.
func crashWords(ctx context.Context, a *attacker) {
	const keep = 10
	a.repeat(ctx, 250*time.Millisecond, func(i int) error {
		pod := installed.PodOf(a.nth(i, keep), a.scene.name)
		if i < keep {
			if err := a.Replace(ctx, pod); err != nil {
				return err
			}
		}
		status := api.InjectionStatus{Secret: "mine", Containers: map[string]string{pod.Spec.Containers[0].Name: "files,env,flags"}}
		labels := fields{api.LabelInjected: "true", api.LabelInject: nil, appsv1.DefaultDeploymentUniqueLabelKey: fmt.Sprint("revision-", i)}
		if err := a.Merge(ctx, pod, fields{"metadata": fields{"labels": labels, "annotations": fields{api.AnnotationStatus: status.Format()}}}); err != nil {
			return err
		}
		message := strings.Repeat("unknown a b c ", 2000) + fmt.Sprint(i)
		return a.Merge(ctx, pod, fields{"status": harness.Crashing(message)})
	})
}

// forgedConditions: 20 times a second, a condition says that a Secret, or each pod, has a certificate
// of a Service, and a Secret with the signer's label is there to be filled. Whatever is in it later is
// a breach.
func forgedConditions(ctx context.Context, a *attacker) {
	a.repeat(ctx, 50*time.Millisecond, func(i int) error {
		name := a.nth(i, 50)
		svc := installed.ServiceOf(name)
		svc.Namespace, svc.Annotations = optedOut, nil
		host := name + "." + optedOut + ".svc"
		ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.Now(), Message: host}
		forged := state.Say(ready, state.Ready{Secret: name, Request: "1", Leaf: strings.Repeat("0a", 32)})
		if i%2 == 1 {
			svc.Annotations = map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}
			ready.Reason = api.ReasonPodKeys
			forged = state.Say(ready, state.Ready{Names: []string{host}, Proof: strings.Repeat("A", 95)})
		}
		err := a.Add(ctx, svc)
		if apierrors.IsAlreadyExists(err) {
			err = a.Get(ctx, client.ObjectKeyFromObject(svc), svc)
		}
		if err != nil {
			return err
		}
		secret := installed.SecretOf(name, ours(), nil, nil)
		secret.Namespace, secret.OwnerReferences = optedOut, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: name, UID: svc.UID}}
		if old := (&corev1.Secret{}); a.Get(ctx, client.ObjectKeyFromObject(secret), old) == nil && len(old.Data[corev1.TLSCertKey]) > 0 {
			a.breach = "Secret " + optedOut + "/" + name + " has a certificate"
		}
		if err := a.Replace(ctx, secret); err != nil {
			return err
		}
		err = a.Merge(ctx, svc, fields{"status": fields{"conditions": forged.Both()}})
		if err == nil {
			a.breach = "condition Ready of Service " + optedOut + "/" + name + " was forged"
		} else if !strings.Contains(err.Error(), "servingcert-conditions") {
			return errors.Join(errors.New("not refused by the policy"), err)
		}
		return err
	})
}

// waitingCSRs: 500 requests of a pod wait for eight Services each. One of these changes all the time
// and never selects the pod. Two more a second, for 100 names of no Service, are denied.
func waitingCSRs(ctx context.Context, a *attacker) {
	const n, changing, owners = 500, 5, 8
	pod, err := a.asPod(ctx)
	if !a.count(ctx, err) {
		return
	}
	a.createServices(ctx, changing, map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)})
	for i := range n {
		names := []string{fmt.Sprintf("%s.%s.svc", a.nth(i, changing), a.Namespace)}
		for j := 1; j < owners; j++ {
			names = append(names, fmt.Sprintf("%s-not-there-%d.%s.svc", a.scene.name, j, a.Namespace))
		}
		a.count(ctx, a.request(ctx, pod, names))
	}
	strange := make([]string, api.MaxNames)
	for i := range strange {
		strange[i] = fmt.Sprintf("n%d.strange.example.com", i)
	}
	a.repeat(ctx, 20*time.Millisecond, func(i int) error {
		if i%25 == 0 {
			return a.request(ctx, pod, strange)
		}
		return a.Merge(ctx, installed.ServiceOf(a.nth(i, changing)), fields{"spec": fields{"selector": fields{"app": fmt.Sprint("nothing-", i)}}})
	})
}

// asPod is a client with a token of a pod of the attacker.
func (a *attacker) asPod(ctx context.Context) (client.Client, error) {
	pod := passing(installed.PodOf(a.scene.name, a.scene.name))
	if err := a.Add(ctx, pod); err != nil {
		return nil, err
	}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "default"}}
	if err := a.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(a.Config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return client.New(config, client.Options{})
}

// request makes a CertificateSigningRequest for the names, with a key of its own.
func (a *attacker) request(ctx context.Context, as client.Client, names []string) error {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, key)
	if err != nil {
		return err
	}
	return as.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: a.scene.name + "-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: api.SignerName, Request: issue.EncodeCSR(der),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	})
}

// These are more connections than a port takes, from addresses that are not the API server's.
const portConnections, podsOfTenant = 600, 50

// ports is an attack on every port of the processes, which any pod of a cluster can reach. It counts
// the connections that it made.
func ports(name, what string, peers int, sends string) *scene {
	return &scene{name: name, what: what, attack: func(ctx context.Context, a *attacker) {
		floods := []*flood.Flood{{Target: a.webhook, TLS: true}}
		for _, p := range a.world.Processes {
			floods = append(floods, &flood.Flood{Target: p.Health()}, &flood.Flood{Target: p.Metrics, TLS: true})
		}
		many(len(floods), func(i int) {
			f := floods[i]
			f.Connections, f.Peers, f.Sends, f.Pause = portConnections, peers, sends, 10*time.Second
			f.Run(ctx)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.sent += f.Opened()
		})
	}}
}

// reviews posts at the webhook's port what the API server never would: a pod of 204 KiB whose
// arguments repeat a variable, and lists of 293 KiB of nothing.
func reviews(ctx context.Context, a *attacker) {
	a.count(ctx, a.Add(ctx, installed.ServiceOf(a.scene.name)))
	pod := installed.PodOf("bomb", a.scene.name)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 4<<10)}}
	pod.Spec.Containers[0].Args = []string{strings.Repeat("$(A)", 50<<10)}
	bomb, _ := json.Marshal(pod) // a pod always marshals
	empty := strings.Repeat("{},", 293<<10/3)
	objects := []string{
		string(bomb),
		`{"spec":{"containers":[` + empty + `{}]}}`,
		`{"spec":{"volumes":[` + empty + `{}]}}`,
		`{"spec":{"containers":[{"volumeMounts":[` + strings.Repeat("{},", 14_000) + `{}]}]}}`, // as many as are taken
	}
	for i, object := range objects {
		objects[i] = fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",`+
			`"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"namespace":%q,"object":%s}}`, a.Namespace, object)
	}
	dialer, trusting := &net.Dialer{LocalAddr: flood.Peer(0)}, &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it attacks
	poster := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: trusting, MaxIdleConnsPerHost: 8}, Timeout: 30 * time.Second}
	defer poster.CloseIdleConnections()
	post := func(body string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+a.webhook+"/mutate-v1-pod", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := poster.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
		if resp.StatusCode != http.StatusOK {
			err = errors.New("HTTP " + resp.Status)
		}
		return err
	}
	many(8, func(worker int) {
		a.repeat(ctx, 100*time.Millisecond, func(i int) error { return post(objects[(i+worker)%len(objects)]) })
	})
}

// slowReviews keeps connections busy with a request that does not end: a byte a second, until the
// webhook closes the connection, which is the error.
func slowReviews(ctx context.Context, a *attacker) {
	drip := func(from net.Addr) error {
		trusting := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it attacks
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second, LocalAddr: from}, Config: trusting}
		conn, err := dialer.DialContext(ctx, "tcp", a.webhook)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "POST /mutate-v1-pod HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 3<<20)
		for err == nil && process.Sleep(ctx, time.Second) {
			_, err = conn.Write([]byte(" "))
		}
		return err
	}
	many(200, func(worker int) {
		a.repeat(ctx, 100*time.Millisecond, func(int) error { return drip(flood.Peer(worker % podsOfTenant)) })
	})
}
