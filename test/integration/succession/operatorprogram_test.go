package succession

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// envOperator is where an operator listens. The test binary is one if it is set: a program of
// controller-runtime as kubebuilder scaffolds it, which knows nothing of servingcert and
// reads its certificate from the default directory, below $TMPDIR.
const envOperator = "SERVINGCERT_TEST_OPERATOR"

func runOperator(address string) error {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	v1, v2 := schema.GroupVersion{Group: "factory.example.com", Version: "v1"}, schema.GroupVersion{Group: "factory.example.com", Version: "v2"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(v1.WithKind("Widget"), &widgetV1{})
	scheme.AddKnownTypeWithName(v2.WithKind("Widget"), &widgetV2{})
	server := webhook.NewServer(webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, // kubebuilder's --enable-http2=false
	}})
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{ // it calls no API server
		Scheme: scheme, WebhookServer: onceServer{server}, Metrics: ctrlmetricsserver.Options{BindAddress: "0"}, MapperProvider: noMapper,
	})
	if err != nil {
		return err
	}
	if err := ctrl.NewWebhookManagedBy(mgr, &widgetV2{}).WithDefaulter(widgetDefaults{}).WithValidator(widgetRules{}).Complete(); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// noMapper is for an operator that reads nothing.
func noMapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return meta.NewDefaultRESTMapper(nil), nil
}

// onceServer closes each connection after its answer, so that each call of the API server
// is a handshake.
type onceServer struct{ webhook.Server }

func (s onceServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		hook.ServeHTTP(w, r)
	}))
}

// widgetV2 is the version that is stored.
type widgetV2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Length string `json:"length,omitempty"`
	} `json:"spec,omitempty"`
}

func (w *widgetV2) DeepCopyObject() runtime.Object {
	c := *w
	c.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &c
}
func (*widgetV2) Hub() {}

// widgetV1 is the older one, in which the length was called size.
type widgetV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Size string `json:"size,omitempty"`
	} `json:"spec,omitempty"`
}

func (w *widgetV1) DeepCopyObject() runtime.Object {
	c := *w
	c.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &c
}

func (w *widgetV1) ConvertTo(hub conversion.Hub) error {
	hub.(*widgetV2).ObjectMeta, hub.(*widgetV2).Spec.Length = w.ObjectMeta, w.Spec.Size
	return nil
}

func (w *widgetV1) ConvertFrom(hub conversion.Hub) error {
	w.ObjectMeta, w.Spec.Size = hub.(*widgetV2).ObjectMeta, hub.(*widgetV2).Spec.Length
	return nil
}

type widgetDefaults struct{}

func (widgetDefaults) Default(_ context.Context, w *widgetV2) error {
	w.Labels = map[string]string{"defaulted": "true"}
	return nil
}

type widgetRules struct{}

func (widgetRules) ValidateCreate(_ context.Context, w *widgetV2) (admission.Warnings, error) {
	if w.Spec.Length == "endless" {
		return nil, errors.New("no widget is endless")
	}
	return nil, nil
}

func (r widgetRules) ValidateUpdate(ctx context.Context, _, w *widgetV2) (admission.Warnings, error) {
	return r.ValidateCreate(ctx, w)
}

func (widgetRules) ValidateDelete(context.Context, *widgetV2) (admission.Warnings, error) {
	return nil, nil
}

// operatorInstead runs an operator, and nothing else, where the process is to be one.
func operatorInstead() {
	address := os.Getenv(envOperator)
	if address == "" {
		return
	}
	if err := runOperator(address); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}
