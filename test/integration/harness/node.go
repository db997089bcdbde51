package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// Node plays the nodes of a control plane: each pod becomes ready at an address of its own. At each port that
// the pod declares, the node serves the certificate of the pod's Secret in its place.
type Node struct {
	Client  client.Client
	Name    string                   // of the Node object that pods are bound to, as their Services have no endpoints without one; or empty
	Runs    func(*corev1.Pod) bool   // which pods it runs; nil: all
	Secret  func(*corev1.Pod) string // the name of the pod's Secret, "" for none; nil: of that which was injected
	Address func(n int) string       // of the n-th pod; it has to be an address of this machine, unless nothing listens
	Silent  bool                     // nothing listens
	Reloads bool                     // programs serve the Secret as it is now, not as it was when they started

	done <-chan error
	pods map[types.UID][]net.Listener
	next int
}

// Start runs the node until ctx ends.
func (n *Node) Start(ctx context.Context) error {
	if n.Name != "" {
		if err := n.Client.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}); err != nil {
			return err
		}
	}
	if n.Secret == nil {
		n.Secret = injectedSecret
	}
	n.pods = map[types.UID][]net.Listener{}
	n.done = Repeat(ctx, n.sync)
	return nil
}

// Wait returns when the node has ended, with the error that it ended with.
func (n *Node) Wait() error {
	err := <-n.done
	for uid := range n.pods {
		n.end(uid)
	}
	return err
}

// sync starts the pods that are new and ends those that are gone.
func (n *Node) sync(ctx context.Context) error {
	var pods corev1.PodList
	if err := n.Client.List(ctx, &pods); err != nil {
		return err
	}
	alive := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		alive[pod.UID] = true
		if n.Runs != nil && !n.Runs(pod) {
			continue
		}
		err := n.step(ctx, pod)
		// Another process may have the address: the pod gets the next one.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("run pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	for uid := range n.pods {
		if !alive[uid] {
			n.end(uid)
		}
	}
	return nil
}

// step takes a pod one step further.
func (n *Node) step(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName != "":
		return n.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case n.pods[pod.UID] != nil || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodRunning:
		return nil
	case n.Name != "" && pod.Spec.NodeName == "":
		return n.Client.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: n.Name}})
	}
	return n.run(ctx, pod)
}

func (n *Node) end(uid types.UID) {
	for _, l := range n.pods[uid] {
		_ = l.Close()
	}
	delete(n.pods, uid)
}

// run starts the pod. It returns NotFound until the Secret that the pod mounts exists.
func (n *Node) run(ctx context.Context, pod *corev1.Pod) error {
	n.next++
	address := n.Address(n.next)
	if secret := n.Secret(pod); secret != "" && !n.Silent {
		if err := n.listen(ctx, pod, client.ObjectKey{Namespace: pod.Namespace, Name: secret}, address); err != nil {
			n.end(pod.UID)
			return err
		}
	}
	err := Ready(ctx, n.Client, pod, address)
	if err != nil {
		n.end(pod.UID)
	}
	return err
}

// listen serves TLS at each port that the pod declares.
func (n *Node) listen(ctx context.Context, pod *corev1.Pod, secret client.ObjectKey, address string) error {
	started, err := n.pair(ctx, secret)
	if err != nil {
		return err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if n.Reloads {
			return n.pair(hello.Context(), secret)
		}
		return started, nil
	}}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range c.Ports {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, fmt.Sprint(p.ContainerPort)))
			if err != nil {
				return err
			}
			n.pods[pod.UID] = append(n.pods[pod.UID], l)
			go serve(l, rotatortest.Handshakes(cfg))
		}
	}
	return nil
}

func (n *Node) pair(ctx context.Context, key client.ObjectKey) (*tls.Certificate, error) {
	var secret corev1.Secret
	if err := n.Client.Get(ctx, key, &secret); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	return &pair, err
}

// injectedSecret returns the name of the Secret that was injected into the pod, or "".
func injectedSecret(pod *corev1.Pod) string {
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

// Ready writes the status that a kubelet reports for a pod whose containers are all ready.
func Ready(ctx context.Context, c client.Client, pod *corev1.Pod, address string) error {
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
	return c.Status().Update(ctx, pod)
}

func serve(l net.Listener, answer func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			answer(conn)
		}()
	}
}
