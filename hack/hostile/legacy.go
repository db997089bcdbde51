package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

const (
	legacyName = "legacy"
	// legacyFirst is the number of the first address that its pods get.
	legacyFirst = 1000
)

// legacy is a Deployment of the first tenant whose program reads its certificate once, so
// that it asks to be restarted.
type legacy struct {
	*shop
	ending chan struct{}
	ended  sync.WaitGroup
}

// openLegacy makes the Deployment, plays a kubelet for its pods, and waits until they are
// seen to serve.
func openLegacy(ctx context.Context, s *shop) (*legacy, error) {
	l := &legacy{shop: s, ending: make(chan struct{})}
	if _, err := s.issued(ctx, legacyName); err != nil {
		return nil, err
	}
	if _, err := s.deployments().Create(ctx, deploymentOf(legacyName, s.port), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	l.ended.Go(l.kubelet)
	if _, err := s.services.wait(ctx, legacyName, "its pods are not seen to serve", isServed); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func deploymentOf(name string, port int) *appsv1.Deployment {
	replicas := int32(1)
	labels := map[string]string{"app": name}
	pod := podOf("", name, int32(port)) //nolint:gosec // a port
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{api.AnnotationOnRotate: string(api.OnRotateRestart)}},
				Spec:       pod.Spec,
			},
		},
	}
}

func (l *legacy) close() {
	close(l.ending)
	l.ended.Wait()
}

// kubelet starts a server for each pod of the Deployment, with the certificate of that
// moment, and says that it is ready.
func (l *legacy) kubelet() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	running := map[string]*server{}
	defer func() {
		for _, s := range running {
			s.close()
		}
	}()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for n := legacyFirst; ; {
		select {
		case <-l.ending:
			return
		case <-ticker.C:
		}
		pods, err := l.pods().List(ctx, metav1.ListOptions{LabelSelector: "app=" + legacyName})
		if err != nil {
			continue // the next look tries again
		}
		gone := running
		running = map[string]*server{}
		for i := range pods.Items {
			name := pods.Items[i].Name
			if s := gone[name]; s != nil {
				running[name] = s
				delete(gone, name)
			} else if s, err := l.run(ctx, name, address(shopNet, n)); err == nil {
				running[name] = s
				n++
			}
		}
		for _, s := range gone {
			s.close()
		}
	}
}

func (l *legacy) run(ctx context.Context, pod, at string) (*server, error) {
	pair, err := l.pairOf(ctx, legacyName+"-tls")
	if err != nil {
		return nil, err
	}
	s, err := listen(ctx, at, l.port, pair)
	if err != nil {
		return nil, err
	}
	if err := l.runs(ctx, pod, at, true); err != nil {
		s.close()
		return nil, fmt.Errorf("pod %s: %w", pod, err)
	}
	return s, nil
}

// renewAndRestart renews the certificate and waits until the Deployment was restarted for
// it, and is seen to serve it.
func (l *legacy) renewAndRestart(ctx context.Context, _ int) error {
	svc, err := l.renewAndWait(ctx, legacyName)
	if err != nil {
		return err
	}
	since := svc.at
	if svc, err = l.services.wait(ctx, legacyName, "it was not restarted", isServed); err != nil {
		return err
	}
	l.took(rowRestarted, svc.at.Sub(since))
	return nil
}
