//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// server is a Service with pods that the clients follow.
type server struct {
	namespace, service, secret string

	port    int  // of the pods
	reloads bool // its processes reload their certificate
	// headless: the Service has no ClusterIP.
	headless bool
	// podKeys: each pod has its own key, and there is no Secret.
	podKeys bool
}

// name returns the name that clients verify.
func (s server) name() string { return s.service + "." + s.namespace + ".svc" }

// url returns the URL of a path.
func (s server) url(path string) string {
	if s.headless {
		return "https://" + s.name() + ":" + strconv.Itoa(s.port) + path
	}
	return "https://" + s.name() + path
}

// target returns the server by its name in the cluster's DNS: fully qualified, with a dot at its end, so
// that a handshake needs one query instead of one for each search domain.
func (s server) target() handshake.Target {
	port := 443
	if s.headless {
		port = s.port
	}
	return handshake.Target{Address: net.JoinHostPort(s.name()+".cluster.local.", strconv.Itoa(port)), Name: s.name()}
}

// atPod returns one of its pods.
func (s server) atPod(pod *corev1.Pod) handshake.Target {
	return handshake.Target{Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(s.port)), Name: s.name()}
}

// podsOf returns the pods of a server, by name, without completed ones.
func (c *cluster) podsOf(ctx context.Context, s server) ([]corev1.Pod, error) {
	svc, err := c.service(ctx, s.namespace, s.service)
	if err != nil {
		return nil, err
	}
	pods, err := c.pods(ctx, s.namespace, svc.Spec.Selector)
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	if err == nil && len(pods) == 0 {
		err = fmt.Errorf("Service %s/%s has no pods", s.namespace, s.service)
	}
	return pods, err
}

// targets returns the server's name and, if it reloads, each of its pods.
func (c *cluster) targets(ctx context.Context, s server) ([]handshake.Target, error) {
	targets := []handshake.Target{s.target()}
	if !s.reloads || s.podKeys {
		return targets, nil
	}
	pods, err := c.podsOf(ctx, s)
	for i := range pods {
		targets = append(targets, s.atPod(&pods[i]))
	}
	return targets, err
}

// processes identifies the processes of a server: pods, with their numbers of restarts.
type processes map[types.UID]int32

func (c *cluster) processesOf(ctx context.Context, s server) (processes, error) {
	pods, err := c.podsOf(ctx, s)
	all := processes{}
	for i := range pods {
		for _, status := range slices.Concat(pods[i].Status.ContainerStatuses, pods[i].Status.InitContainerStatuses) {
			all[pods[i].UID] += status.RestartCount
		}
	}
	return all, err
}

// servedBy returns nil if each pod of the server serves the leaf, as last seen by the attentive client.
func (c *cluster) servedBy(ctx context.Context, s server, leaf string) error {
	report, err := c.report(ctx, attentive)
	if err != nil {
		return err
	}
	pods, err := c.podsOf(ctx, s)
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods {
		account, ok := report.Of(s.atPod(&pods[i]))
		if latest := account.Latest(); !ok || latest.Leaf != leaf {
			errs = append(errs, fmt.Errorf("pod %s/%s serves leaf %.12s of %q; want %.12s", s.namespace, pods[i].Name, latest.Leaf, latest.Issuer, leaf))
		}
	}
	return errors.Join(errs...)
}

// starts fails the test unless the pods of the namespace become ready, the server then serves the
// certificate in the Secret to a client that verifies its name, and the rotator reports it.
func (c *cluster) starts(t *testing.T, s server, path, body string) {
	t.Helper()
	eventually(t, starting, s.namespace, func(ctx context.Context) error { return c.rolledOut(ctx, s.namespace, "") })
	c.serves(t, s, path, body)
	eventually(t, verifying, "the rotator reports it", func(ctx context.Context) error {
		return c.hasCondition(ctx, s.namespace, s.service, api.ConditionServing, "True", api.ServingCurrent)
	})
}

// serves fails the test unless a client gets the response from the server, with the certificate in the
// Secret.
func (c *cluster) serves(t *testing.T, s server, path, body string) {
	t.Helper()
	c.servesAt(t, s, s.url(path), body, s.name())
}

// servesAt is serves for any of the server's URLs, with a certificate for the name. The certificate may be
// replaced meanwhile.
func (c *cluster) servesAt(t *testing.T, s server, url, body, name string) {
	t.Helper()
	eventually(t, propagating, "fetch "+url, func(ctx context.Context) error {
		leaf, err := c.currentLeaf(ctx, s.namespace, s.service)
		if err != nil {
			return err
		}
		return c.fetches(ctx, url, body, leaf, name)
	})
}

// takesUp fails the test unless all pods of a reloading server serve the current certificate in the Secret,
// with the same processes, and the rotator reports it.
func (c *cluster) takesUp(t *testing.T, s server, before processes) {
	t.Helper()
	eventually(t, propagating, s.name()+" reloads its new certificate", func(ctx context.Context) error {
		leaf, err := c.currentLeaf(ctx, s.namespace, s.service)
		if err != nil {
			return err
		}
		return c.servedBy(ctx, s, leaf)
	})
	eventually(t, verifying, "the rotator reports it", func(ctx context.Context) error {
		return c.hasCondition(ctx, s.namespace, s.service, api.ConditionServing, "True", "Current")
	})
	after, err := c.processesOf(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for uid, restarts := range after {
		if was, ok := before[uid]; !ok || was != restarts {
			t.Errorf("%s was restarted: pods and restarts were %v and are %v", s.name(), before, after)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%s had pods %v, and has %v", s.name(), before, after)
	}
}
