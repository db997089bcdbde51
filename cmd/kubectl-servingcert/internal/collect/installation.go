package collect

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// partOf selects servingcert's objects.
const partOf = "app.kubernetes.io/part-of=servingcert"

// installation reads servingcert's own objects. namespaces lists the candidates for the dry
// run.
func (g *gatherer) installation(ctx context.Context, namespaces []string) {
	i := &doctor.Installation{Namespace: g.opts.System}
	g.facts.Installation = i
	g.processes(ctx, i)
	g.caBundles(ctx, i)
	g.kubelets(ctx, i)
	if g.facts.Authority != nil {
		i.Bundle = g.facts.Authority.WebhookBundle()
	}
	g.dryRun(ctx, i, namespaces)
	i.Skew = g.clock.Skew()
}

// processes reads the Deployments, their pods and Leases.
func (g *gatherer) processes(ctx context.Context, i *doctor.Installation) {
	deployments, err := g.client.AppsV1().Deployments(g.opts.System).List(ctx, metav1.ListOptions{})
	if err != nil {
		g.failed("Deployments in "+g.opts.System, err, doctor.Installed, doctor.Available)
	} else {
		i.Deployments = map[string]*appsv1.Deployment{}
		for j := range deployments.Items {
			i.Deployments[deployments.Items[j].Name] = &deployments.Items[j]
		}
	}
	if i.Leases, err = cluster.Leases(ctx, g.client, g.opts.System); err != nil {
		g.failed("Leases in "+g.opts.System, err, doctor.Leases)
	}
	pods, err := g.client.CoreV1().Pods(g.opts.System).List(ctx, metav1.ListOptions{LabelSelector: partOf})
	if err != nil {
		g.failed("Pods in "+g.opts.System, err, doctor.Versions)
	} else {
		i.Pods = pods.Items
	}
}

// caBundles reads the webhook's CA bundles.
func (g *gatherer) caBundles(ctx context.Context, i *doctor.Installation) {
	config, err := g.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, webhookName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		i.NoConfiguration = true
	case err != nil:
		g.failed("MutatingWebhookConfiguration "+webhookName, err, doctor.CABundle)
	default:
		for _, w := range config.Webhooks {
			i.CABundles = append(i.CABundles, string(w.ClientConfig.CABundle))
		}
	}
}

// kubelets reads the requests of kubelets, if the signer approves them.
func (g *gatherer) kubelets(ctx context.Context, i *doctor.Installation) {
	if why := i.NoKubelets(); why != "" {
		if g.opts.Kubelets {
			g.facts.Failures = append(g.facts.Failures, doctor.Failure{
				What: "the certificates that kubelets serve (--kubelets)", Why: "none was dialled: " + why, Kind: doctor.ReadNotTried, Checks: []doctor.ID{doctor.KubeletServing},
			})
		}
		return
	}
	list, err := g.client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName,
	})
	if err != nil {
		g.failed("CertificateSigningRequests", err, doctor.KubeletServing)
		return
	}
	i.KubeletRequests = append([]certificatesv1.CertificateSigningRequest{}, list.Items...)
	if !g.opts.Kubelets {
		return
	}
	nodes, err := g.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		g.failed("Nodes", err, doctor.KubeletServing)
		return
	}
	i.Kubelets = dialKubelets(ctx, nodes.Items)
}

// webhookName is the name of the webhook's configuration.
const webhookName = "servingcert"

// authority reads the status of the CA, which the signer and the rotator publish. If it is
// missing, the checks of the installation report why.
func (g *gatherer) authority(ctx context.Context) {
	cm, err := g.client.CoreV1().ConfigMaps(g.opts.System).Get(ctx, api.CAStatusName, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			err = errors.New("it does not exist: the signer has not started yet")
		}
		g.failed("ConfigMap "+g.opts.System+"/"+api.CAStatusName, err, doctor.CABundle)
		return
	}
	state := &doctor.State{CA: api.ParseCAStatus(cm.Data), TrustAccount: g.opts.System + ":servingcert-trust"}
	trust, err := g.client.CoreV1().ConfigMaps(g.opts.System).Get(ctx, api.TrustStatusName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		g.failed("ConfigMap "+g.opts.System+"/"+api.TrustStatusName, err, doctor.TrustTargets)
		state.Unread = true
	default:
		status, err := api.ParseTrustStatus(trust.Data)
		if err != nil {
			status.Problem = err.Error()
		}
		state.Trust = &status
	}
	g.facts.Authority = state
}

// identities is authority for the CA for clients, which exists only with the signer's flag --trust-domain.
func (g *gatherer) identities(ctx context.Context) {
	cm, err := g.client.CoreV1().ConfigMaps(g.opts.System).Get(ctx, api.ClientCAStatusName, metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			g.failed("ConfigMap "+g.opts.System+"/"+api.ClientCAStatusName, err, doctor.CAProblem, doctor.CAWarning, doctor.Missed) // the trust domain is that of its roots
		}
		return
	}
	state := &doctor.State{CA: api.ParseCAStatus(cm.Data), Clients: true}
	if state.Trust, err = cluster.ClientRoots(ctx, g.client); err != nil {
		g.failed("ClusterTrustBundle "+api.ClientBundleName, err, doctor.TrustTargets)
		state.Unread = true
	}
	g.facts.Identities = state
}
