//go:build gitops

package gitops

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// port is where pods listen, each at an address of its own.
const port = 18443

// node plays one for all pods: it says of each that it is ready. One that was injected
// serves the certificate that its Secret holds when it starts, until it ends: it is a
// program that reads its files once.
type node struct {
	done <-chan error

	pods map[types.UID]net.Listener
	next int
}

func newNode() *node { return &node{pods: map[types.UID]net.Listener{}} }

// start runs the node until ctx ends.
func (n *node) start(ctx context.Context) { n.done = harness.Repeat(ctx, n.sync) }

// wait returns when the node has ended, with the error that it ended with.
func (n *node) wait() error {
	err := <-n.done
	for _, l := range n.pods {
		err = errors.Join(err, l.Close())
	}
	return err
}

// sync starts the pods that are new and ends those that are gone.
func (n *node) sync(ctx context.Context) error {
	var pods corev1.PodList
	if err := admin.List(ctx, &pods); err != nil {
		return err
	}
	alive := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		alive[pod.UID] = true
		if n.pods[pod.UID] != nil || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodRunning {
			continue
		}
		if err := n.run(ctx, pod); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("run pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	for uid, l := range n.pods {
		if !alive[uid] {
			_ = l.Close()
			delete(n.pods, uid)
		}
	}
	return nil
}

// run starts the pod once the Secret that it mounts is there.
func (n *node) run(ctx context.Context, pod *corev1.Pod) error {
	n.next++
	address := fmt.Sprintf("127.9.%d.%d", n.next/250, 1+n.next%250)
	name := secretOf(pod)
	if name == "" {
		return ready(ctx, pod, address)
	}
	var secret corev1.Secret
	if err := admin.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &secret); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("%s:%d", address, port))
	if err != nil {
		return err
	}
	if err := ready(ctx, pod, address); err != nil {
		return errors.Join(err, l.Close())
	}
	n.pods[pod.UID] = l
	go serve(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	return nil
}

// secretOf returns the Secret that was injected into the pod.
func secretOf(pod *corev1.Pod) string {
	if pod.Labels[api.LabelInjected] != "true" {
		return ""
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				return s.Secret.Name
			}
		}
	}
	return ""
}

func ready(ctx context.Context, pod *corev1.Pod, address string) error {
	now := metav1.Now()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: &now}
	for _, c := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return admin.Status().Update(ctx, pod)
}

func serve(l net.Listener, cfg *tls.Config) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			if server := tls.Server(conn, cfg); server.HandshakeContext(context.Background()) == nil {
				_, _ = io.Copy(io.Discard, server)
			}
		}()
	}
}
