package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

const (
	served        = 6 // Services whose pods serve
	podsOfService = 2
	renewed       = 4 // Services that are renewed and have no pods
	// shopNet is the second octet of the addresses of its pods.
	shopNet = 5

	pausePod    = 250 * time.Millisecond
	pauseNew    = 500 * time.Millisecond
	pauseRenew  = 3 * time.Second
	pauseServed = 8 * time.Second
	// mostRenewals is about how often a Secret is renewed at most, however long it
	// goes on: a signer may limit that.
	mostRenewals = 15
)

// shop is the first tenant's work.
type shop struct {
	*tenant
	*measures
	services *services
	port     int
	servers  map[string][]*server // by Service
	legacy   *legacy
	working  sync.WaitGroup
}

// open makes what is there before anything is measured: Services with pods that are seen
// to serve, and some without.
func open(ctx context.Context, t *tenant) (*shop, error) {
	watched, err := watchServices(ctx, t)
	if err != nil {
		return nil, err
	}
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &shop{tenant: t, measures: &measures{}, services: watched, port: int(netip.MustParseAddrPort(at).Port()), servers: map[string][]*server{}}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range served {
		if err := s.openService(ctx, servedName(i), i*podsOfService); err != nil {
			return s, err
		}
	}
	for i := range renewed {
		if _, err := s.issued(ctx, renewedName(i)); err != nil {
			return s, err
		}
	}
	if s.legacy, err = openLegacy(ctx, s); err != nil {
		return s, err
	}
	for i := range served {
		if _, err := s.services.wait(ctx, servedName(i), "its pods are not seen to serve", isServed); err != nil {
			return s, err
		}
	}
	return s, nil
}

func servedName(i int) string  { return fmt.Sprint("served-", i) }
func renewedName(i int) string { return fmt.Sprint("renewed-", i) }

// close ends what listens and watches.
func (s *shop) close() {
	for _, servers := range s.servers {
		for _, server := range servers {
			server.close()
		}
	}
	if s.legacy != nil {
		s.legacy.close()
	}
	s.services.stop()
}

// openService makes a Service and its pods, which listen from the n-th address on.
func (s *shop) openService(ctx context.Context, name string, n int) error {
	if _, err := s.issued(ctx, name); err != nil {
		return err
	}
	pair, err := s.pairOf(ctx, name+"-tls")
	if err != nil {
		return err
	}
	for i := range podsOfService {
		server, err := listen(ctx, address(shopNet, n+i), s.port, pair)
		if err != nil {
			return err
		}
		s.servers[name] = append(s.servers[name], server)
		pod := podOf(fmt.Sprint(name, "-", i), name, int32(s.port)) //nolint:gosec // a port
		if err := s.createPod(ctx, pod); err != nil {
			return err
		}
		if err := s.runs(ctx, pod.Name, server.address, true); err != nil {
			return err
		}
	}
	return nil
}

// serviceOf returns a Service that asks for Secret NAME-tls and selects app=NAME.
func serviceOf(name string, port int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt(port)}},
		},
	}
}

func podOf(name, app string, port int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/server", Ports: []corev1.ContainerPort{{ContainerPort: port}}}}},
	}
}

// issued creates an annotated Service, waits until it is Ready, and returns how long that
// took.
func (s *shop) issued(ctx context.Context, name string) (time.Duration, error) {
	start := time.Now()
	if _, err := s.tenant.services().Create(ctx, serviceOf(name, s.port), metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	svc, err := s.services.wait(ctx, name, "it is not Ready", isReady)
	return svc.at.Sub(start), err
}

// createPod creates a pod through the webhook. It is an error if it was not injected.
func (s *shop) createPod(ctx context.Context, pod *corev1.Pod) error {
	stored, err := s.pods().Create(ctx, pod, metav1.CreateOptions{})
	if err == nil && stored.Labels[api.LabelInjected] != "true" {
		err = errors.New("pod " + pod.Name + " was not injected: " + stored.Annotations[api.AnnotationStatus])
	}
	return err
}

func isReady(svc *corev1.Service) bool {
	c := api.Condition(svc, api.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && leafOf(svc) != ""
}

// isServed reports whether the pods are seen to serve the leaf that the signer names.
func isServed(svc *corev1.Service) bool {
	c := api.Condition(svc, api.ConditionServing)
	said, _ := state.ServingOf(svc)
	return c != nil && c.Status == metav1.ConditionTrue && leafOf(svc) != "" && said.Leaf == leafOf(svc)
}

func leafOf(svc *corev1.Service) string {
	leaf, _ := state.LeafOf(svc)
	return leaf
}
