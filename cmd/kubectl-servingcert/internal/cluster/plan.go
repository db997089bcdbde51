package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/pages"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Plan returns the plan of the Services of a namespace ("": of all) with these names, as in plan.Plan.Only. References to
// them are read in all namespaces or, if the user may not read those, in that one. The pods of Services that watch who
// calls are asked for that.
func (c *Cluster) Plan(ctx context.Context, cfg *rest.Config, namespace string, names []string, opts plan.Options) (plan.Plan, error) {
	p := planner{Cluster: c, ctx: ctx, namespace: namespace}
	services, err := p.services()
	if err != nil {
		return plan.Plan{}, err
	}
	namespaces, err := p.namespaces()
	if err != nil {
		return plan.Plan{}, err
	}
	if opts.Endpoints, err = p.endpoints(); err != nil {
		return plan.Plan{}, err
	}
	if opts.Live = true; slices.ContainsFunc(services, func(svc *corev1.Service) bool { return api.Condition(svc, api.ConditionServing) != nil }) {
		var unknown string
		if opts.NoRotator, unknown, err = c.noRotator(ctx, opts.System); err != nil {
			return plan.Plan{}, err
		}
		if unknown != "" {
			p.unread = append(p.unread, "Leases: "+unknown+", so it is unknown whether condition "+api.ConditionServing+" is up to date")
		}
	}
	if opts.Quotas, err = p.quotas(); err != nil {
		return plan.Plan{}, err
	}
	p.builder = plan.New(services, namespaces, opts)
	p.watching = watchingOf(services, names)
	for _, what := range p.unread {
		p.builder.Unread(what)
	}
	for _, read := range []func() error{p.workloads, p.jobs, p.pods, p.configMaps, p.others} {
		if err := read(); err != nil {
			return plan.Plan{}, err
		}
	}
	p.watching.ask(ctx, c, cfg, services, askAll, p.builder.AddCalled)
	out, err := p.builder.Plan().Only(names)
	if err != nil {
		return plan.Plan{}, err
	}
	out.Forbidden, err = c.forbidden(ctx, out)
	return out, err
}

// planner reads the objects of a plan.
type planner struct {
	*Cluster
	ctx       context.Context // of one call
	namespace string
	builder   *plan.Builder
	watching  watching
	unread    []string
}

// each visits the objects of all namespaces. If the user may not read these, it visits those of the
// one namespace, and records that.
func each[C pages.Lister[L], L, T runtime.Object](p *planner, what string, in func(namespace string) C, visit func(T)) error {
	return p.all(what, func(namespace string) error { return pages.Each(p.ctx, in(namespace), metav1.ListOptions{}, visit) })
}

// all calls page for all namespaces or, if that is forbidden, for the one.
func (p *planner) all(what string, page func(namespace string) error) error {
	err := page("")
	if !apierrors.IsForbidden(err) {
		return about(what, err)
	}
	if p.namespace == "" {
		p.builder.Unread(what + ": this user may not list them")
		return nil
	}
	p.builder.Unread(what + " outside of namespace " + p.namespace + ": this user may not list them")
	if err = page(p.namespace); apierrors.IsForbidden(err) {
		p.builder.Unread(what + " of namespace " + p.namespace + ": this user may not list them")
		return nil
	}
	return about(what, err)
}

func about(what string, err error) error {
	if err != nil {
		return fmt.Errorf("list %s: %w", what, err)
	}
	return nil
}

func (p *planner) services() ([]*corev1.Service, error) {
	var out []*corev1.Service
	err := pages.Each(p.ctx, p.Client.CoreV1().Services(p.namespace), metav1.ListOptions{}, func(svc *corev1.Service) { out = append(out, svc) })
	return out, about("Services", err)
}

// endpoints reads which ports have ready endpoints; nil if that is forbidden.
func (p *planner) endpoints() (plan.Endpoints, error) {
	out := plan.Endpoints{}
	err := pages.Each(p.ctx, p.Client.DiscoveryV1().EndpointSlices(p.namespace), metav1.ListOptions{}, func(slice *discoveryv1.EndpointSlice) { out.Add(slice) })
	if apierrors.IsForbidden(err) {
		p.unread = append(p.unread, "EndpointSlices: this user may not list them, so it is unknown whether ready pods serve the ports")
		return nil, nil
	}
	return out, about("EndpointSlices", err)
}

// quotas reads the ResourceQuotas.
func (p *planner) quotas() ([]*corev1.ResourceQuota, error) {
	var out []*corev1.ResourceQuota
	err := pages.Each(p.ctx, p.Client.CoreV1().ResourceQuotas(p.namespace), metav1.ListOptions{}, func(quota *corev1.ResourceQuota) { out = append(out, quota) })
	if apierrors.IsForbidden(err) {
		p.unread = append(p.unread, "ResourceQuotas: this user may not list them")
		return nil, nil
	}
	return out, about("ResourceQuotas", err)
}

// namespaces reads which namespaces are opted in.
func (p *planner) namespaces() ([]*corev1.Namespace, error) {
	var out []*corev1.Namespace
	var err error
	if p.namespace != "" {
		var ns *corev1.Namespace
		if ns, err = p.Client.CoreV1().Namespaces().Get(p.ctx, p.namespace, metav1.GetOptions{}); err == nil {
			out = append(out, ns)
		}
	} else {
		err = pages.Each(p.ctx, p.Client.CoreV1().Namespaces(), metav1.ListOptions{}, func(ns *corev1.Namespace) { out = append(out, ns) })
	}
	if apierrors.IsForbidden(err) {
		p.unread = append(p.unread, "Namespaces: this user may not read them, so it is unknown which are opted in")
		return nil, nil
	}
	return out, about("Namespaces", err)
}

// add adds a workload with its object, in which the pod template is at the path.
func (p *planner) add(kind string, object metav1.Object, template corev1.PodTemplateSpec, path ...any) {
	object.SetManagedFields(nil) // the largest part that is not needed
	p.builder.AddWorkload(plan.Workload{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		Pod: &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, Object: object, Template: path,
	})
}

func (p *planner) workloads() error {
	apps := p.Client.AppsV1()
	err := each(p, "Deployments", apps.Deployments, func(d *appsv1.Deployment) { p.add("Deployment", d, d.Spec.Template, "spec", "template") })
	if err != nil {
		return err
	}
	err = each(p, "StatefulSets", apps.StatefulSets, func(s *appsv1.StatefulSet) { p.add("StatefulSet", s, s.Spec.Template, "spec", "template") })
	if err != nil {
		return err
	}
	return each(p, "DaemonSets", apps.DaemonSets, func(d *appsv1.DaemonSet) { p.add("DaemonSet", d, d.Spec.Template, "spec", "template") })
}

// jobs reads CronJobs and Jobs, which serve nothing but call Services.
func (p *planner) jobs() error {
	asJob := func(template corev1.PodTemplateSpec) corev1.PodTemplateSpec { // like pods of the Job controller
		template.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job"}}
		return template
	}
	batch := p.Client.BatchV1()
	err := each(p, "CronJobs", batch.CronJobs, func(j *batchv1.CronJob) {
		p.add("CronJob", j, asJob(j.Spec.JobTemplate.Spec.Template), "spec", "jobTemplate", "spec", "template")
	})
	if err != nil {
		return err
	}
	return each(p, "Jobs", batch.Jobs, func(j *batchv1.Job) {
		if metav1.GetControllerOf(j) == nil {
			p.add("Job", j, asJob(j.Spec.Template), "spec", "template")
		}
	})
}

// pods reads the pods without such a controller, one of each workload.
func (p *planner) pods() error {
	seen := map[string]bool{}
	return each(p, "Pods", p.Client.CoreV1().Pods, func(pod *corev1.Pod) {
		p.watching.add(pod)
		w := plan.Workload{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, Pod: pod}
		if made := pods.FactsOf(pod).Template.Value().Workload; !made.Bare() {
			w.Kind, w.Name = made.Kind, made.Name
			p.builder.AddPod(w.Kind, w.Name, pod)
			id := w.Namespace + " " + w.String()
			if made.Restartable() || made.Kind == "Job" || seen[id] {
				return
			}
			seen[id] = true
		}
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			p.builder.AddWorkload(w)
		}
	})
}

func (p *planner) configMaps() error {
	return each(p, "ConfigMaps", p.Client.CoreV1().ConfigMaps, p.builder.AddConfigMap)
}

// resource is a kind of object that may refer to Services, or limit access to them.
type resource struct {
	apiVersion, kind, plural string
	cluster                  bool // cluster-scoped
}

// resources lists those that plan.Builder reads. A cluster may lack some.
var resources = []resource{
	{"networking.k8s.io/v1", "Ingress", "ingresses", false},
	{"networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", false},
	{"gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", false},
	{"gateway.networking.k8s.io/v1", "GRPCRoute", "grpcroutes", false},
	{"gateway.networking.k8s.io/v1alpha2", "TCPRoute", "tcproutes", false},
	{"gateway.networking.k8s.io/v1alpha2", "TLSRoute", "tlsroutes", false},
	{"gateway.networking.k8s.io/v1alpha3", "BackendTLSPolicy", "backendtlspolicies", false},
	{"gateway.networking.k8s.io/v1", "BackendTLSPolicy", "backendtlspolicies", false},
	{"monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors", false},
	{"route.openshift.io/v1", "Route", "routes", false},
	{"apiregistration.k8s.io/v1", "APIService", "apiservices", true},
	{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", true},
	{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", true},
	{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", true},
}

func (p *planner) others() error {
	for _, r := range resources {
		page := func(namespace string) error { return p.resource(r, namespace) }
		var err error
		if r.cluster {
			if err = page(""); apierrors.IsForbidden(err) {
				p.builder.Unread(r.plural + ": this user may not list them")
				continue
			}
		} else {
			err = p.all(r.plural, page)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return about(r.plural, err)
		}
	}
	return nil
}

// pageSize is the number of objects in a page.
const pageSize = "500"

// resource reads the objects of a resource, unstructured.
func (p *planner) resource(r resource, namespace string) error {
	path := []string{"apis", r.apiVersion, r.plural}
	if namespace != "" {
		path = []string{"apis", r.apiVersion, "namespaces", namespace, r.plural}
	}
	var page struct {
		Metadata metav1.ListMeta  `json:"metadata"`
		Items    []map[string]any `json:"items"`
	}
	for {
		raw, err := p.Client.Discovery().RESTClient().Get().AbsPath("/"+strings.Join(path, "/")).
			Param("limit", pageSize).Param("continue", page.Metadata.Continue).DoRaw(p.ctx)
		if err != nil {
			return err
		}
		page.Items, page.Metadata = nil, metav1.ListMeta{}
		if err := json.Unmarshal(raw, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			meta, _ := item["metadata"].(map[string]any)
			o := plan.Object{APIVersion: r.apiVersion, Kind: r.kind, Content: item}
			o.Namespace, _ = meta["namespace"].(string)
			o.Name, _ = meta["name"].(string)
			p.builder.AddObject(o)
		}
		if page.Metadata.Continue == "" {
			return nil
		}
	}
}
