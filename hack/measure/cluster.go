package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// Cluster is a control plane, and clients of it without a rate limit.
type Cluster struct {
	Plane    *controlplane.ControlPlane
	Client   kubernetes.Interface
	Metadata metadata.Interface
	Dir      string // for logs, and for what else a run needs
}

// Start starts a control plane in a directory below dir.
func Start(ctx context.Context, dir string, o controlplane.Options) (*Cluster, error) {
	o.Dir = filepath.Join(dir, "controlplane")
	plane, err := controlplane.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Plane: plane, Dir: dir}
	if err := c.connect(); err != nil {
		_ = plane.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) connect() (err error) {
	cfg := rest.CopyConfig(c.Plane.AdminConfig())
	cfg.QPS, cfg.ContentType = -1, "application/vnd.kubernetes.protobuf"
	cfg.WarningHandler = rest.NoWarnings{} // thousands of pods are warned about
	if c.Client, err = kubernetes.NewForConfig(cfg); err != nil {
		return err
	}
	c.Metadata, err = metadata.NewForConfig(cfg)
	return err
}

// Build builds a program of cmd into dir, with the arguments for go build, and returns its
// file.
func Build(ctx context.Context, dir, program string, args ...string) (string, error) {
	return filepath.Join(dir, program), process.Build(ctx, dir, args, "cmd/"+program)
}

// Each runs f for 0 … n-1, so many at a time.
func Each(ctx context.Context, n, atATime int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atATime)
	for i := range n {
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}

// Name is the name of the i-th Service.
func Name(i int) string { return fmt.Sprintf("service-%05d", i) }

// OptedIn labels a namespace whose Services the signer is to serve.
func OptedIn() map[string]string { return map[string]string{api.LabelInject: api.InjectEnabled} }

// MakeNamespace makes a namespace.
func (c *Cluster) MakeNamespace(ctx context.Context, name string, labels map[string]string) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	return err
}

// MakeService makes the i-th Service of a namespace. Annotated, it asks for a certificate.
func (c *Cluster) MakeService(ctx context.Context, namespace string, i int, annotated bool) error {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name(i)},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, // 10 000 addresses are not what is measured
			Selector:  map[string]string{"app": Name(i)},
			Ports:     []corev1.ServicePort{{Name: "https", Port: 443}},
		},
	}
	if annotated {
		svc.Annotations = map[string]string{api.AnnotationSecretName: Name(i) + "-tls"}
	}
	_, err := c.Client.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
	return err
}

// RotateCA asks for another generation of the CA.
func (c *Cluster) RotateCA(ctx context.Context, mode api.RotateMode) error {
	request := api.RotateRequest{Mode: mode, Reason: "to measure it"}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": request.Annotations()}})
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().ConfigMaps(api.DefaultNamespace).Patch(ctx, api.CAStatusName, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// CountSecrets asks the cheapest question that tells how many Secrets of a namespace there
// are.
func (c *Cluster) CountSecrets(ctx context.Context, namespace string) (int, error) {
	list, err := c.Client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
}
