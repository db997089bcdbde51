package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/process"
)

// evilNet is the second octet of the addresses of the attacker's pods.
const evilNet = 6

// tarpits has the rotator dial pods that never answer. All of them say that they have the
// same address: that is the attacker's to write.
func tarpits(ctx context.Context, a *attacker) {
	const pods, ports, first = 200, 16, 20_000
	at := address(evilNet, 0)
	svc := serviceOf(a.name, first)
	svc.Spec.Ports = nil
	var listening []*server
	defer func() {
		for _, s := range listening {
			s.close()
		}
	}()
	for i := range ports {
		s, err := listen(ctx, at, first+i, nil)
		if err != nil {
			a.count(ctx, err)
			return
		}
		listening = append(listening, s)
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("https-", i), Port: int32(1000 + i), TargetPort: intstr.FromInt(first + i)})
	}
	_, err := a.services().Create(ctx, svc, metav1.CreateOptions{})
	if !a.count(ctx, err) {
		return
	}
	for i := range pods {
		pod := podOf(a.nth(i, pods), a.name, first)
		if _, err := a.pods().Create(ctx, pod, metav1.CreateOptions{}); a.count(ctx, err) {
			a.count(ctx, a.runs(ctx, pod.Name, at, true))
		}
	}
	a.repeat(ctx, 2*time.Second, func(i int) error {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ports": []map[string]any{{"port": 1000, "targetPort": first + i%2}}}})
		if err != nil {
			return err
		}
		_, err = a.services().Patch(ctx, a.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// rollouts holds the places of workloads that may roll out at a time. The first pod of
// each Deployment serves its first certificate for ever. The pod that a restart makes is
// never ready in half of the Deployments, and ready every other second in the others.
func rollouts(ctx context.Context, a *attacker) {
	const n, port = 6, 21_000
	for i := range n {
		if err := a.deploy(ctx, a.nth(i, n), port); !a.count(ctx, err) {
			return
		}
	}
	first := map[string]*server{} // by Deployment
	defer func() {
		for _, s := range first {
			s.close()
		}
	}()
	a.repeat(ctx, time.Second, func(i int) error {
		for j := range n {
			name := a.nth(j, n)
			if first[name] == nil {
				s, err := a.firstPod(ctx, name, address(evilNet, 1+j), port)
				if err != nil {
					return err
				}
				first[name] = s
				if err := nextRenewal(ctx, a, name); err != nil {
					return err
				}
			} else if j%2 == 1 {
				if err := a.flap(ctx, name, first[name].address, i%2 == 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// nextRenewal renews in another second than that of the last certificate.
func nextRenewal(ctx context.Context, a *attacker, name string) error {
	if process.Sleep(ctx, time.Second) && nextSecond(ctx) {
		return a.renew(ctx, name)
	}
	return ctx.Err()
}

// deploy makes an annotated Service and a Deployment that asks to be restarted, and that
// has the longest time to get on with it.
func (a *attacker) deploy(ctx context.Context, name string, port int) error {
	if _, err := a.services().Create(ctx, serviceOf(name, port), metav1.CreateOptions{}); err != nil {
		return err
	}
	longest := int32(1<<31 - 2)
	d := deploymentOf(name, port)
	d.Spec.ProgressDeadlineSeconds = &longest
	_, err := a.deployments().Create(ctx, d, metav1.CreateOptions{})
	return err
}

// firstPod has the only pod of a Deployment serve its certificate at an address.
func (a *attacker) firstPod(ctx context.Context, name, at string, port int) (*server, error) {
	pods, err := a.pods().List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) == 0 {
		return nil, fmt.Errorf("Deployment %s has no pod", name)
	}
	pair, err := a.pairOf(ctx, name+"-tls")
	if err != nil {
		return nil, err
	}
	s, err := listen(ctx, at, port, pair)
	if err != nil {
		return nil, err
	}
	if err := a.runs(ctx, pods.Items[0].Name, at, true); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// flap has the youngest pod of a Deployment be ready or not.
func (a *attacker) flap(ctx context.Context, name, at string, ready bool) error {
	pods, err := a.pods().List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil || len(pods.Items) < 2 {
		return err
	}
	youngest := pods.Items[0]
	for _, pod := range pods.Items {
		if youngest.CreationTimestamp.Before(&pod.CreationTimestamp) {
			youngest = pod
		}
	}
	return a.runs(ctx, youngest.Name, at, ready)
}
