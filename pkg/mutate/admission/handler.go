package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// Path is where the webhook answers.
const Path = "/mutate-v1-pod"

// auditReasons is the key of the audit annotation, which the API server prefixes
// with the webhook's name.
const auditReasons = "reasons"

// handler answers reviews of pods that are created. It has no side effects, so
// dry-run works. It uses the namespace of the request, because that of the object
// may be empty.
type handler struct {
	// cached returns what the informers know of a namespace, or false if they have
	// not synced; live reads from the API server. See [Lookup].
	cached func(ctx context.Context, namespace string) (choose.Known, bool)
	live   func(ctx context.Context, namespace string) (choose.Known, error)
	// elsewhere returns a Service of another namespace, as the informers know it.
	elsewhere func(ctx context.Context, namespace, name string) *corev1.Service
	// programs returns the programs that are known.
	programs func() *programs.Table
	// podKeys reports whether kubelets make keys.
	podKeys func(ctx context.Context) (bool, error)
	config  choose.Config // without Programs
	memory  *memory
	metrics *metrics
	clock   func() time.Time
	log     logr.Logger
}

// podDecoder knows no other kind. It would parse the amounts of an object of that kind before it refuses the object.
var podDecoder = func() admission.Decoder {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{})
	return admission.NewDecoder(scheme)
}()

// serving returns the handler behind controller-runtime's, which reads reviews and writes them.
func (h *handler) serving() http.Handler {
	reviews := &admission.Webhook{
		Handler: h,
		// It would log an error for whatever anybody sends. What is worth a line is logged here.
		LogConstructor: func(logr.Logger, *admission.Request) logr.Logger { return logr.Discard() },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := h.clock()
		a := &reply{ResponseWriter: w, outcome: outcomeFailed, body: body{ReadCloser: r.Body, memory: h.memory}}
		defer a.body.answered()
		r = r.WithContext(context.WithValue(r.Context(), replyKey{}, a))
		r.Body = &a.body
		reviews.ServeHTTP(a, r)
		if a.outcome == outcomeFailed {
			h.log.V(1).Info("review failed", "error", api.Shorten(a.why, maxLogged))
			reason := reasonError
			if a.body.tooMany {
				reason = reasonTooManyReviews
			}
			h.metrics.count(resultFailed, reason, nil)
		}
		h.metrics.took(a.outcome, h.clock().Sub(started))
	})
}

// Handle answers one review. If the pod cannot be decided about, because the API server cannot be
// read or because of a bug, that is an HTTP error; see reply.
func (h *handler) Handle(ctx context.Context, req admission.Request) (resp admission.Response) {
	defer func() { // so that the log has the pod, and the API server is told that there is no answer
		if p := recover(); p != nil {
			h.log.Error(fmt.Errorf("panic: %v", p), "review failed: panic", "namespace", shown(req.Namespace), "pod", shown(req.Name), "stack", string(debug.Stack()))
			resp = admission.Errored(http.StatusInternalServerError, errors.New("internal error: see the webhook's log"))
		}
	}()
	a := replyOf(ctx)
	resp = h.review(ctx, &req, &a.body)
	a.outcome = outcomeOf(&resp)
	return resp
}

// review answers one review. While the API server is asked, the pod is not kept: it is decoded again
// afterwards, so that reviews that wait take no memory from others.
func (h *handler) review(ctx context.Context, req *admission.Request, body *body) admission.Response {
	if req.UID == "" {
		return admission.Errored(http.StatusBadRequest, errors.New("the review has no request"))
	}
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Resource.Group != "" || req.Resource.Resource != "pods" {
		h.metrics.count(resultUntouched, reasons.NotConcerned, nil)
		return admission.Allowed("") // only new pods are changed, whatever a configuration sends
	}
	live := map[string]choose.Known{}
	for { // what is listed may only be known from the first read
		resp, unknown := h.decide(ctx, req, body, live)
		if len(unknown) == 0 {
			return resp
		}
		if len(live) == 0 {
			h.metrics.liveReads.Inc()
		}
		err := h.read(ctx, req.Namespace, unknown, live)
		if errors.Is(err, errNotOptedIn) {
			h.log.V(1).Info("untouched", "namespace", shown(req.Namespace), "pod", shown(req.Name), "reason", api.Shorten(err.Error(), maxLogged))
			h.metrics.count(resultUntouched, reasonNotOptedIn, nil)
			return admission.Allowed("").WithWarnings("servingcert: nothing is injected: " + err.Error())
		}
		if err != nil {
			return h.unread(ctx, req, err)
		}
	}
}

// decide decides about the pod by what the API server said about namespaces, and by the informers about others. It
// returns those that the API server has to be asked about first.
func (h *handler) decide(ctx context.Context, req *admission.Request, body *body, live map[string]choose.Known) (resp admission.Response, unknown []string) {
	done, err := body.decoding(ctx)
	if err != nil {
		return admission.Errored(http.StatusTooManyRequests, err), nil
	}
	defer done()
	if err := checkAmounts(req.Object.Raw); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err)), nil
	}
	pod := &corev1.Pod{}
	if err := podDecoder.Decode(*req, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err)), nil
	}
	wanted, err := api.ParsePod(&pod.ObjectMeta)
	if err != nil {
		return h.deny(req, reasonBadAnnotation, err), nil
	}
	choice, unknown := h.choose(ctx, pod, wanted, req.Namespace, live)
	if len(unknown) > 0 {
		return admission.Response{}, unknown
	}
	if choice.PodKey != nil {
		served, err := h.podKeys(ctx)
		if err != nil {
			return h.unread(ctx, req, err), nil
		}
		choice.NoPodKeys = !served
	}
	patch, report, err := mutate.Inject(pod, wanted, choice)
	if err != nil {
		reason := reasonTooLarge
		if errors.As(err, new(*mutate.NoPodKeysError)) {
			reason = reasonNoPodKeys
		}
		return h.deny(req, reason, err), nil
	}
	return h.allow(req, patch, report), nil
}

// unread answers that the API server could not be read for the review. It is logged as an error, unless the client
// has gone away, as anyone could fill the log with those.
func (h *handler) unread(ctx context.Context, req *admission.Request, err error) admission.Response {
	resp := admission.Errored(http.StatusInternalServerError, err)
	err = errors.New(api.Shorten(err.Error(), maxLogged)) // it may quote the names
	const message = "review failed: cannot read from the API server"
	if errors.Is(ctx.Err(), context.Canceled) {
		h.log.V(1).Info(message, "namespace", shown(req.Namespace), "pod", shown(req.Name), "error", err.Error())
		return resp
	}
	h.log.Error(err, message, "namespace", shown(req.Namespace), "pod", shown(req.Name))
	return resp
}

// shown returns a name of a review as it is logged. The client chooses it, of any length.
func shown(name string) string { return api.Shorten(name, validation.DNS1123SubdomainMaxLength) }

// deny refuses the pod.
func (h *handler) deny(req *admission.Request, reason reasons.Reason, err error) admission.Response {
	h.log.V(1).Info("denied", "namespace", shown(req.Namespace), "pod", shown(req.Name), "reason", api.Shorten(err.Error(), maxLogged))
	h.metrics.count(resultDenied, reason, nil)
	return admission.Denied(err.Error())
}

// allow lets the pod pass with the patch, which may be empty.
func (h *handler) allow(req *admission.Request, patch jsonpatch.Patch, report mutate.Report) admission.Response {
	operations, err := patch.JSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("write the patch: %w", err))
	}
	if log := h.log.V(1); log.Enabled() {
		log.Info("reviewed", "namespace", shown(req.Namespace), "pod", shown(req.Name), "reason", report.Reason, "secret", report.Secret, "by", report.By, "operations", len(patch))
	}
	result := resultUntouched
	if report.Injected() {
		result = resultInjected
	}
	h.metrics.count(result, report.Reason, report.Notes)
	resp := admission.Allowed("").WithWarnings(report.Warnings()...)
	if len(operations) > 0 {
		// Not as Patches, which are a type of another library that is written in the same way.
		resp.Patch, resp.PatchType = operations, new(admissionv1.PatchTypeJSONPatch)
	}
	if report.Concerned() {
		var names []string
		for _, r := range report.Reasons() {
			names = append(names, string(r))
		}
		resp.AuditAnnotations = map[string]string{auditReasons: strings.Join(names, ",")}
	}
	return resp
}
