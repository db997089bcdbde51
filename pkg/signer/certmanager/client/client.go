// Package client asks cert-manager for certificates as package certmanager says: it makes
// CertificateRequests and the Secrets that keep their keys, reads the answers, and deletes
// both when they are used or nobody asks for them any more.
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

// Config says whom to ask, and where.
type Config struct {
	Issuer certmanager.Issuer
	// Namespace holds the requests, and the Issuer if it is of one namespace.
	Namespace, Instance string
	// Roots is the ConfigMap there whose key ca.crt has what clients are to trust, and what is
	// between; empty: what the issuer says.
	Roots string
	// ProbeDuration is the lifetime of a certificate that shows the issuer's CA.
	ProbeDuration time.Duration
	Clock         func() time.Time
	Writer        client.Writer
	Live          client.Reader // the API server itself
}

const (
	// callTimeout is how long one request to the API server may take.
	callTimeout = 10 * time.Second
	// maxPending is how many requests there are at once. A tenant takes no more than half of what the
	// others leave of it. Its first one is admitted beyond that, until there are maxAll: however many
	// wait for a few tenants, nobody is kept out.
	maxPending = 500
	maxAll     = 2 * maxPending
)

// Client asks the issuer. It is safe for concurrent use.
type Client struct {
	config  Config
	breaker remote.Breaker

	mu      sync.Mutex
	pending map[string]*pending // by name
	swept   bool                // pending has all that there are
	owners  map[string]string   // the name of what was last asked for each Secret
	full    time.Time           // since when there is no room; zero: there is
	issuer  *x509.Certificate   // who has signed the last probe; nil: not known yet
	doubted time.Time           // when a certificate was by another CA than that
}

// pending is a request that there is, or its key.
type pending struct {
	tenant string
	wanted time.Time // when somebody last asked for it
	used   bool      // its certificate is in its Secret, and it could not be deleted
}

// New returns a client that has asked nothing yet.
func New(cfg Config) *Client {
	return &Client{config: cfg, pending: map[string]*pending{}, owners: map[string]string{}}
}

// call talks to the API server, unless that has just failed: one that does not serve
// CertificateRequests is left alone for a while.
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

// failure says what is wrong with a call, in words that are the same each time.
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

// Available returns what Issue would return at once: the API server has just failed, and is
// left alone for a while. Nil: it may be asked.
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
			return nil // whether the kind is there, the next write shows
		}
		if err == nil {
			r, err = certmanager.FromObject(object.Object)
		}
		return err
	})
	return r, err
}

// list reads the requests that this signer has made, and those before it.
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

// create makes a request. One that there is already is left as it is.
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

// key returns the key that is kept for a request, or nil if none is.
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
			key = nil // somebody has damaged it: another is made
		}
		return nil
	})
	return key, err
}

// keep makes a key and keeps it for a request, so that a certificate which comes in an hour
// is of use to a signer that was restarted meanwhile. One that is kept already, by a signer
// that ended before it asked, is used.
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
	// It holds no key: somebody has damaged it.
	return key, c.call(ctx, func(ctx context.Context) error {
		if err := c.config.Writer.Delete(ctx, secret.DeepCopy()); err != nil {
			return err
		}
		return c.config.Writer.Create(ctx, secret.DeepCopy())
	})
}
