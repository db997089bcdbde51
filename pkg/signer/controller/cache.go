package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
)

// CacheOptions returns the options of the manager's cache: opted-in Namespaces, and the names
// of unmanaged Secrets, which may block a managed one. Services and managed Secrets have caches
// of their own: see Services and secretOptions.
func (c Config) CacheOptions() (cache.Options, error) {
	notOurs, err := labels.NewRequirement(api.LabelManagedBy, selection.NotEquals, []string{c.Instance})
	if err != nil {
		return cache.Options{}, fmt.Errorf("--instance: %w", err)
	}
	noCopy := true
	return facts.Paged(cache.Options{
		ReaderFailOnMissingInformer: true, // a read must not start a watch of all Secrets with data
		ByObject: map[client.Object]cache.ByObject{
			facts.Metadata("Namespace"): {
				Label:                 labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
				Transform:             facts.KeepIdentity,
				UnsafeDisableDeepCopy: &noCopy,
			},
			facts.Metadata("Secret"): {
				Label:                 labels.NewSelector().Add(*notOurs),
				Transform:             facts.KeepWriters,
				UnsafeDisableDeepCopy: &noCopy,
			},
		},
	}), nil
}

func indexOwner(f *signer.SecretFacts) []string {
	var uids []string
	for _, r := range f.ServiceOwners() {
		uids = append(uids, string(r.UID))
	}
	return uids
}

// secretOptions returns the options of the cache of managed Secrets, which holds their facts.
func secretOptions(instance string) facts.Options[*corev1.Secret, *signer.SecretFacts] {
	return facts.Options[*corev1.Secret, *signer.SecretFacts]{
		Example:  &corev1.Secret{},
		Label:    labels.SelectorFromSet(labels.Set{api.LabelManagedBy: instance}),
		Derive:   func(secret *corev1.Secret) *signer.SecretFacts { return signer.FactsOf(secret, instance) },
		Indexers: map[string]func(*signer.SecretFacts) []string{byOwner: indexOwner},
	}
}
