//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// scenes returns the scenes whose servers the clients follow.
func scenes() []*scene {
	return []*scene{
		reloadScene(), schedulerScene(), metricsScene(), readOnceScene(), statefulSetScene(),
		nginxScene(), pythonScene(), restrictedScene(), waitsScene(), optOutScene(), badInputScene(),
		programsScene(), failingScene(), podKeysScene(), requestsScene(), certManagerScene(), breaksScene(), prometheusScene(), proxyScene(), identitiesScene(), protocolsScene(), gatewayScene(), dualStackScene(), staticScene(),
	}
}

func reloadScene() *scene {
	web := server{namespace: "e2e-reload", service: "web", secret: "web-tls", port: 8443, reloads: true}
	s := &scene{
		name: "reload", about: "a Go server that reloads its files", manifest: "reload.yaml",
		servers: []server{web},
		up: func(t *testing.T, c *cluster) {
			c.starts(t, web, "/", "hello from web-")
			c.fetchesFromHost(t, web, "/")
		},
	}
	s.renewed = func(t *testing.T, c *cluster, _ before) { c.measureWoken(t, s, web) }
	return s
}

// schedulerScene: the acceptance test, a component of Kubernetes that only has the two flags.
func schedulerScene() *scene {
	scheduler := server{namespace: "e2e-scheduler", service: "scheduler", secret: api.ConventionalSecretName, port: 10259, reloads: true}
	return &scene{
		name: "scheduler", about: "the real kube-scheduler, with Secret serving-cert", manifest: "scheduler.yaml",
		servers: []server{scheduler},
		up: func(t *testing.T, c *cluster) {
			c.starts(t, scheduler, "/healthz", "ok")
			c.wasGiven(t, scheduler, given{parts: "files,env,flags,probes", flags: twoFlags})
			eventually(t, starting, "a pod that waits for this scheduler", func(ctx context.Context) error {
				pod := &corev1.Pod{}
				err := c.admin.Get(ctx, client.ObjectKey{Namespace: scheduler.namespace, Name: "scheduled-by-it"}, pod)
				if err == nil && pod.Status.Phase != corev1.PodRunning {
					err = fmt.Errorf("phase %s", pod.Status.Phase)
				}
				return err
			})
		},
		renewed: func(t *testing.T, c *cluster, _ before) { c.serves(t, scheduler, "/healthz", "ok") },
	}
}

// statefulSetScene: pods with their own DNS names.
func statefulSetScene() *scene {
	db := server{namespace: "e2e-statefulset", service: "db", secret: "db-tls", port: 8443, reloads: true, headless: true}
	eachByName := func(t *testing.T, c *cluster) {
		for _, pod := range []string{"db-0", "db-1"} {
			c.servesAt(t, db, "https://"+pod+"."+db.name()+":8443/", "hello from "+pod, "*."+db.name())
		}
	}
	return &scene{
		name: "statefulset", about: "each pod behind a headless Service, by its own name", manifest: "statefulset.yaml",
		servers: []server{db},
		up: func(t *testing.T, c *cluster) {
			c.starts(t, db, "/", "hello from db-")
			eachByName(t, c)
		},
		renewed: func(t *testing.T, c *cluster, _ before) { eachByName(t, c) },
	}
}

// pythonScene: files by environment variables, also for an init container, a reloading process in another
// language, and a CronJob as its client.
func pythonScene() *scene {
	python := server{namespace: "e2e-python", service: "python", secret: "python-tls", port: 8443, reloads: true}
	return &scene{
		name: "python", about: "Python's http.server, mode env, reloads; an init container, and a CronJob as client", manifest: "python.yaml",
		servers: []server{python},
		up:      func(t *testing.T, c *cluster) { c.starts(t, python, "/", "hello from Python") },
		succeeded: func(t *testing.T, c *cluster) {
			since := time.Now()
			eventually(t, verifying, "a Job of the CronJob", func(ctx context.Context) error {
				job := &batchv1.CronJob{}
				if err := c.admin.Get(ctx, client.ObjectKey{Namespace: python.namespace, Name: "client"}, job); err != nil {
					return err
				}
				if last := job.Status.LastSuccessfulTime; last == nil || last.Time.Before(since) {
					return fmt.Errorf("the last one succeeded at %v", last)
				}
				return nil
			})
		},
	}
}

func restrictedScene() *scene {
	web := server{namespace: "e2e-restricted", service: "web", secret: "web-tls", port: 8443, reloads: true}
	return &scene{
		name: "restricted", about: "Pod Security restricted; not root, with and without fsGroup", manifest: "restricted.yaml",
		servers: []server{web},
		up: func(t *testing.T, c *cluster) {
			c.starts(t, web, "/", "hello from ")
			pods, err := c.podsOf(t.Context(), web)
			require.NoError(t, err)
			assert.Len(t, pods, 2, "one without and one with an fsGroup")
		},
	}
}

// waitsScene: pods wait for their Secrets only by their volumes.
func waitsScene() *scene {
	late := server{namespace: "e2e-waits", service: "late", secret: "late-tls", port: 8443, reloads: true}
	return &scene{
		name: "waits", about: "pods that are created before their Secret wait for it", manifest: "waits.yaml",
		servers: []server{late},
		up: func(t *testing.T, c *cluster) {
			eventually(t, starting, "the kubelet waits for the Secret", func(ctx context.Context) error {
				said, err := c.events(ctx, late.namespace, "Pod", "", "FailedMount")
				if err == nil && !strings.Contains(said, late.secret) {
					err = fmt.Errorf("events FailedMount: %s", said)
				}
				return err
			})
			pods, err := c.podsOf(t.Context(), late)
			require.NoError(t, err)
			require.Len(t, pods, 1)
			require.Equal(t, corev1.PodPending, pods[0].Status.Phase)
			c.annotate(t, late, api.AnnotationSecretName, late.secret)
			eventually(t, settling, "the certificate", func(ctx context.Context) error {
				_, err := c.currentLeaf(ctx, late.namespace, late.service)
				return err
			})
			c.starts(t, late, "/", "hello from "+pods[0].Name)
		},
	}
}

// optOutScene: removing the label stops new injections, and deletes nothing.
func optOutScene() *scene {
	web := server{namespace: "e2e-optout", service: "web", secret: "web-tls", port: 8443, reloads: true}
	var retained string // the leaf when the label was removed
	return &scene{
		name: "optout", about: "the label is removed: new pods are plain, certificates of old ones are renewed", manifest: "optout.yaml",
		servers: []server{web},
		up:      func(t *testing.T, c *cluster) { c.starts(t, web, "/", "hello from web-") },
		renewed: func(t *testing.T, c *cluster, _ before) {
			var err error
			retained, err = c.currentLeaf(t.Context(), web.namespace, web.service)
			require.NoError(t, err)
			unlabel := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, api.LabelInject)
			require.NoError(t, c.admin.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: web.namespace}}, client.RawPatch(types.MergePatchType, unlabel)))
			eventually(t, settling, "the Secret is kept", func(ctx context.Context) error {
				return c.hasCondition(ctx, web.namespace, web.service, api.ConditionReady, "True", api.ReasonRetained)
			})
			eventually(t, settling, "a new pod is plain", func(ctx context.Context) error { return c.plain(ctx, web.namespace) })
			c.serves(t, web, "/", "hello from web-")
		},
		succeeded: func(t *testing.T, c *cluster) {
			leaf, err := c.currentLeaf(t.Context(), web.namespace, web.service)
			require.NoError(t, err)
			require.NotEqual(t, retained, leaf, "a Secret that is retained is renewed")
			c.serves(t, web, "/", "hello from web-")
		},
	}
}

// plain returns nil if a new pod is not injected. It is a dry run, which the webhook answers as any other
// request.
func (c *cluster) plain(ctx context.Context, namespace string) error {
	deployment := &appsv1.Deployment{}
	if err := c.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "web"}, deployment); err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-", Namespace: namespace, Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
	if err := c.admin.Create(ctx, pod, client.DryRunAll); err != nil {
		return err
	}
	if pod.Labels[api.LabelInjected] != "" || len(pod.Spec.Containers[0].Args) != len(deployment.Spec.Template.Spec.Containers[0].Args) {
		return errors.New("injected")
	}
	return nil
}
