package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/hack/process"
)

// defaultAccount is the ServiceAccount of pods that name none.
const defaultAccount = "default"

// accountsRetry is the pause before namespaces are watched again, for example while a test
// has stopped the API server.
const accountsRetry = 100 * time.Millisecond

// startDefaultAccounts creates ServiceAccount "default" in every namespace until Stop, as
// kube-controller-manager would. The admission plugin waits at least a second for that
// ServiceAccount, so that a pod can be created right after its namespace.
func (cp *ControlPlane) startDefaultAccounts() {
	ctx, cancel := context.WithCancel(context.Background())
	cp.stopAccounts, cp.accountsDone = cancel, make(chan struct{})
	go func() {
		defer close(cp.accountsDone)
		for again := true; again; again = process.Sleep(ctx, accountsRetry) {
			// Any error means that the API server is not running.
			_ = cp.watchNamespaces(ctx)
		}
	}()
}

// watchNamespaces creates default ServiceAccounts until the watch ends.
func (cp *ControlPlane) watchNamespaces(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(cp.AdminConfig())
	if err != nil {
		return err
	}
	existing, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range existing.Items {
		if err := makeDefaultAccount(ctx, client, existing.Items[i].Name); err != nil {
			return err
		}
	}
	watch, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{ResourceVersion: existing.ResourceVersion})
	if err != nil {
		return err
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		ns, ok := event.Object.(*corev1.Namespace)
		if !ok {
			return apierrors.FromObject(event.Object)
		}
		if ns.Status.Phase == corev1.NamespaceTerminating {
			continue
		}
		if err := makeDefaultAccount(ctx, client, ns.Name); err != nil {
			return err
		}
	}
	return errors.New("watch of namespaces ended")
}

func makeDefaultAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: defaultAccount, Namespace: namespace}}
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil // it exists, or its namespace is being deleted
	}
	return err
}

// hasDefaultAccount returns nil if ServiceAccount default/default exists.
func (cp *ControlPlane) hasDefaultAccount(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(cp.AdminConfig())
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, defaultAccount, metav1.GetOptions{})
	return err
}

// waitForDefaultAccount returns when pods can be created in namespace "default".
func (cp *ControlPlane) waitForDefaultAccount(ctx context.Context) error {
	if err := process.Poll(ctx, process.Soon, pollInterval, cp.hasDefaultAccount); err != nil {
		return fmt.Errorf("no ServiceAccount default/default: %w", err)
	}
	return nil
}
