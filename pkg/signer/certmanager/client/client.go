// Package client requests certificates from cert-manager by package certmanager. It creates
// CertificateRequests and Secrets with their keys, reads the answers, and deletes both when
// they are used or no longer needed.
package client

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/certmanager"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// RootsFlag names the ConfigMap of Config.Roots.
const RootsFlag = "--ca-issuer-roots"

// Config configures a Client.
type Config struct {
	Issuer certmanager.Issuer
	// Namespace holds the requests, and the Issuer if it is namespaced.
	Namespace, Instance string
	// Roots is a ConfigMap there. Its key ca.crt has the roots that clients trust, and
	// intermediates. If it is empty, the issuer's answer has them.
	Roots string
	// ProbeDuration is the lifetime of a probe's certificate.
	ProbeDuration time.Duration
	Clock         func() time.Time
	Writer        client.Writer
	Live          client.Reader // reads from the API server
}

const (
	// callTimeout is the timeout of a request to the API server.
	callTimeout = 10 * time.Second
	// maxPending is the most requests at a time. A tenant may have half of those that the others
	// leave. Beyond that, the first request of a tenant is admitted up to maxAll, so that a few
	// tenants with many requests do not block the others.
	maxPending = 500
	maxAll     = 2 * maxPending
)

// Client requests certificates of an issuer. It is safe for concurrent use.
type Client struct {
	config  Config
	breaker remote.Breaker

	mu      sync.Mutex
	pending map[string]*pending // by name
	swept   bool                // pending contains all existing requests
	owners  map[string]string   // name of the last request by Secret, if that is pending
	full    time.Time           // since when maxPending is reached, or zero
	issuer  *x509.Certificate   // CA of the last probe; nil: not known yet
	doubted time.Time           // when another CA than that signed a certificate
}

// pending is an existing request, or its key.
type pending struct {
	tenant string
	wanted time.Time // when the certificate was last needed
	used   bool      // its certificate is in its Secret, and it could not be deleted
}

// New returns a client that has sent no request.
func New(cfg Config) *Client {
	return &Client{config: cfg, pending: map[string]*pending{}, owners: map[string]string{}}
}

// call sends a request to the API server, unless the Breaker stops it after a failure: the API
// server may not serve CertificateRequests.
func (c *Client) call(ctx context.Context, do func(context.Context) error) error {
	asked := c.config.Clock()
	if err := c.breaker.Allow(asked, callTimeout); err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := do(timed)
	if ctx.Err() != nil && err != nil {
		c.breaker.Abandoned(c.config.Clock())
		return ctx.Err()
	}
	failed := failure(err)
	if failed != nil && failed.Broken() {
		c.breaker.Failed(asked, c.config.Clock(), failed, rand.Float64())
	} else {
		c.breaker.Answered()
	}
	if failed != nil {
		return failed
	}
	return nil
}

// failure returns the error of a call, with a text that does not change between attempts.
func failure(err error) *remote.Error {
	var known *remote.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return remote.NewError(issue.ReasonUnreachable, "the API server does not serve %s of %s: is cert-manager installed?", certmanager.Kind, certmanager.APIVersion)
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return remote.NewError(issue.ReasonUnreachable, "the API server does not answer within %s", callTimeout)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return remote.NewError(issue.ReasonCARefused, "the request was not accepted: %v", err)
	}
	return remote.NewError(issue.ReasonUnreachable, "the API server: %s", remote.Cause(err))
}

// Available returns the error that Issue would return at once because the API server has just
// failed, or nil.
func (c *Client) Available() error {
	if err := c.breaker.Resting(c.config.Clock()); err != nil {
		return err
	}
	return nil
}

func newObject() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(certmanager.APIVersion)
	object.SetKind(certmanager.Kind)
	return object
}

// get reads a request, or returns nil if there is none.
func (c *Client) get(ctx context.Context, name string) (r *certmanager.Request, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		object := newObject()
		err := c.config.Live.Get(ctx, client.ObjectKey{Namespace: c.config.Namespace, Name: name}, object)
		if apierrors.IsNotFound(err) {
			return nil // the next write fails if the kind is not served
		}
		if err == nil {
			r, err = certmanager.FromObject(object.Object)
		}
		return err
	})
	return r, err
}

// list reads all requests of this instance.
func (c *Client) list(ctx context.Context) (all []*certmanager.Request, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(certmanager.APIVersion)
		list.SetKind(certmanager.Kind + "List")
		if err := c.config.Live.List(ctx, list, client.InNamespace(c.config.Namespace), client.MatchingLabels(certmanager.Labels(c.config.Instance))); err != nil {
			return err
		}
		for i := range list.Items {
			r, err := certmanager.FromObject(list.Items[i].Object)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	return all, err
}

// create creates a request, unless it exists.
func (c *Client) create(ctx context.Context, r *certmanager.Request) error {
	object, err := r.Object()
	if err != nil {
		return err
	}
	return c.call(ctx, func(ctx context.Context) error {
		err := c.config.Writer.Create(ctx, &unstructured.Unstructured{Object: object})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// delete deletes a request and the key for it.
func (c *Client) delete(ctx context.Context, name string) error {
	object := newObject()
	secret := &corev1.Secret{}
	for _, o := range []client.Object{object, secret} {
		o.SetNamespace(c.config.Namespace)
		o.SetName(name)
		if err := c.call(ctx, func(ctx context.Context) error {
			return client.IgnoreNotFound(c.config.Writer.Delete(ctx, o))
		}); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}

// key returns the stored key of a request, or nil.
func (c *Client) key(ctx context.Context, name string) (key crypto.Signer, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		secret := &corev1.Secret{}
		err := c.config.Live.Get(ctx, client.ObjectKey{Namespace: c.config.Namespace, Name: name}, secret)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if key, err = pki.ParseKey(secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
			key = nil // invalid: another is generated
		}
		return nil
	})
	return key, err
}

// keep generates a key for a request and stores it, so that a signer that was restarted can use
// a certificate that arrives later. It returns the stored key if there is one, as after a signer
// that stopped before it created the request.
func (c *Client) keep(ctx context.Context, name, owner string, algorithm pki.KeyAlgorithm) (crypto.Signer, error) {
	key, err := pki.GenerateKey(algorithm)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	keyPEM, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.config.Namespace, Name: name, Labels: certmanager.Labels(c.config.Instance),
			Annotations: map[string]string{certmanager.AnnotationFor: owner},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: keyPEM},
	}
	exists := false
	if err := c.call(ctx, func(ctx context.Context) error {
		err := c.config.Writer.Create(ctx, secret.DeepCopy())
		if exists = apierrors.IsAlreadyExists(err); exists {
			return nil
		}
		return err
	}); err != nil || !exists {
		return key, err
	}
	if kept, err := c.key(ctx, name); err != nil || kept != nil {
		return kept, err
	}
	// The Secret holds no valid key.
	return key, c.call(ctx, func(ctx context.Context) error {
		if err := c.config.Writer.Delete(ctx, secret.DeepCopy()); err != nil {
			return err
		}
		return c.config.Writer.Create(ctx, secret.DeepCopy())
	})
}
