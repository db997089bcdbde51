package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// DefaultKeyAlgorithm is the key algorithm for a Service that does not request one.
const DefaultKeyAlgorithm = pki.ECDSAP256

// Params are a certificate's key algorithm and lifetime.
type Params struct {
	KeyAlgorithm pki.KeyAlgorithm
	Duration     time.Duration
}

// AnnotationKeySource selects where the private keys of a Service's certificates are
// made: its value is a KeySource.
const AnnotationKeySource = Domain + "/key-source"

// A KeySource is a value of AnnotationKeySource.
type KeySource string

// The values of KeySource.
const (
	// KeySourceSecret: by the signer, which writes it into a Secret. The default.
	KeySourceSecret KeySource = "secret"
	// KeySourcePod: where it is used, one for each pod. No Secret is issued.
	KeySourcePod KeySource = "pod"
)

// ReasonPodKeys of condition Ready: the pods of the Service make the keys of their
// certificates. Only the signer writes the condition.
const ReasonPodKeys = "PodKeys"

// KeySourceOf returns the value of the Service's AnnotationKeySource, KeySourceSecret if it
// has none, and a *FieldError if the value is not valid.
func KeySourceOf(svc *corev1.Service) (KeySource, error) {
	value, ok := svc.Annotations[AnnotationKeySource]
	if !ok {
		return KeySourceSecret, nil
	}
	if detail := checkShape(AnnotationKeySource, value); detail != "" {
		return KeySourceSecret, &FieldError{AnnotationKeySource, value, detail}
	}
	return KeySource(value), nil
}

// Request is what one Service requests, validated against the Limits.
type Request struct {
	KeySource  KeySource
	External   bool         // another issuer writes the Secret
	SecretName string       // may be empty if KeySource is KeySourcePod
	DNSNames   []string     // sorted, no duplicates, at least two
	IPs        []netip.Addr // sorted, no duplicates
	// FormerNames are the Service's names in the FormerDomains; sorted, no duplicates.
	// They are not requested, so they do not count towards MaxNames or a Hash.
	FormerNames []string
	Params      Params // with the defaults filled in
	// Asked holds the parameters that the Service's annotations set; the others are
	// zero. Only these can contradict another Service; a default cannot.
	Asked Params
	// RenewAfter, if not zero, is a time in whole seconds. When it has passed, a
	// certificate that was issued earlier is replaced.
	RenewAfter time.Time
	Formats    formats.Set // additional files in the Secret
	// Password is the password of the Formats; empty if none of them has one.
	Password string
}

// Wants returns the name of the Secret that the Service requests, and whether it requests
// one. A Service whose pods make their keys does not ([WantsPodKeys]), nor does one that is
// being deleted.
func Wants(svc *corev1.Service) (secretName string, ok bool) {
	if svc.DeletionTimestamp != nil || WantsPodKeys(svc) {
		return "", false
	}
	secretName, ok = svc.Annotations[AnnotationSecretName]
	return secretName, ok
}

// WantsPodKeys reports whether the Service requests certificates whose keys its pods make.
// It returns false if the annotation is not valid, in which case Parse refuses the Service,
// and if the Service is being deleted.
func WantsPodKeys(svc *corev1.Service) bool {
	source, err := KeySourceOf(svc)
	return err == nil && source == KeySourcePod && svc.DeletionTimestamp == nil
}

// Asks reports whether the Service requests a certificate, with either KeySource.
func Asks(svc *corev1.Service) bool {
	_, secret := Wants(svc)
	return secret || WantsPodKeys(svc)
}

// HasPodKeys reports whether condition Ready of the Service says that its pods make their keys.
func HasPodKeys(svc *corev1.Service) bool {
	ready := Condition(svc, ConditionReady)
	return ready != nil && (ready.Reason == ReasonPodKeys || ready.Reason == ReasonExternal && HasOtherPodKeys(svc))
}

// requestStep parses a part of a Service's request.
type requestStep func(*Request, *corev1.Service, Limits) error

// requestSteps lists all, in the order in which errors are reported.
var requestSteps = append([]requestStep{
	(*Request).parseSize, (*Request).parseKeySource, (*Request).parseIssuer, (*Request).parseTarget, (*Request).parseDuration, (*Request).parseKeyAlgorithm,
	(*Request).parseNames, (*Request).parseIPs, (*Request).parseRenewAfter, (*Request).parseBackendTLS,
}, requestFormats()...)

// Parse returns what the Service requests. Every error is a *FieldError, or wraps one.
func Parse(svc *corev1.Service, limits Limits) (Request, error) {
	r := Request{SecretName: svc.Annotations[AnnotationSecretName]}
	for _, step := range requestSteps {
		if err := step(&r, svc, limits); err != nil {
			return Request{}, err
		}
	}
	return r, nil
}

// Problems returns everything that is wrong with the Service's request, not only the first
// problem as Parse does. Every error is a *FieldError.
func Problems(svc *corev1.Service, limits Limits) []error {
	r := Request{SecretName: svc.Annotations[AnnotationSecretName]}
	var errs []error
	for _, step := range requestSteps {
		if err := step(&r, svc, limits); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (r *Request) parseSize(svc *corev1.Service, _ Limits) error { return CheckSize(svc) }

func (r *Request) parseKeySource(svc *corev1.Service, _ Limits) (err error) {
	r.KeySource, err = KeySourceOf(svc)
	return err
}

// namesSecret reports whether the Service must name a Secret, or names one.
func (r *Request) namesSecret() bool {
	return r.KeySource != KeySourcePod || r.SecretName != ""
}

func (r *Request) parseTarget(svc *corev1.Service, _ Limits) error {
	key := AnnotationSecretName
	if k := OpenShiftAnnotation(svc); k != "" {
		key = k
	}
	if r.namesSecret() && !IsSubdomain(r.SecretName) {
		return &FieldError{key, r.SecretName, checkShape(AnnotationSecretName, r.SecretName)}
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return &FieldError{"spec.type", string(svc.Spec.Type), "refers to a host outside the cluster, which cannot get a certificate: must be ClusterIP, NodePort or LoadBalancer"}
	}
	if r.SecretName == ConventionalSecretName && len(svc.Spec.Selector) == 0 {
		return &FieldError{key, r.SecretName, "every pod in the namespace would get this Secret: a Service may use this name only if it has a selector"}
	}
	return nil
}

func (r *Request) parseDuration(svc *corev1.Service, limits Limits) error {
	d, ok, err := valueOf(svc.Annotations, AnnotationDuration, limits.parseDuration)
	if r.Params.Duration = limits.DefaultDuration; ok {
		r.Params.Duration, r.Asked.Duration = d, d
	}
	return err
}

func (l Limits) parseDuration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return 0, fmt.Errorf("not a valid duration: must be a Go duration between %s and %s, such as 720h", hours(l.MinDuration), hours(l.MaxDuration))
	case d < l.MinDuration || d > l.MaxDuration:
		return 0, fmt.Errorf("must be between %s and %s", hours(l.MinDuration), hours(l.MaxDuration))
	case d%time.Second != 0:
		return 0, errors.New("must be in whole seconds")
	}
	return d, nil
}

func (r *Request) parseKeyAlgorithm(svc *corev1.Service, limits Limits) error {
	a, ok, err := valueOf(svc.Annotations, AnnotationKeyAlgorithm, func(value string) (pki.KeyAlgorithm, error) {
		a, err := pki.ParseKeyAlgorithm(value)
		switch {
		case r.KeySource == KeySourcePod && (a == pki.RSA2048 || a.IsMLDSA()):
			err = errors.New("kubelets do not make such keys: must be another algorithm with " + AnnotationKeySource + ": " + string(KeySourcePod))
		case a == pki.RSA4096 && !limits.PermitRSA4096 && r.KeySource != KeySourcePod:
			err = errors.New("not permitted: the signer was started without --permit-rsa4096, and such a key takes seconds to generate: must be " + otherAlgorithms)
		}
		return a, err
	})
	if r.Params.KeyAlgorithm = DefaultKeyAlgorithm; ok {
		r.Params.KeyAlgorithm, r.Asked.KeyAlgorithm = a, a
	}
	return err
}

// otherAlgorithms are the algorithms that every signer permits.
const otherAlgorithms = "ECDSAP256, ECDSAP384, ECDSAP521, ED25519, RSA2048, RSA3072, MLDSA44 or MLDSA65"

func (r *Request) parseNames(svc *corev1.Service, limits Limits) error {
	r.DNSNames = serviceNames(svc, limits.ClusterDomain)
	extra, err := ExtraNames(svc)
	if err != nil {
		return err
	}
	limits.PermitAllNames = limits.PermitAllNames || r.External // nothing is issued
	for _, name := range extra {
		if err := checkExtraName(svc, name, limits); err != nil {
			return &FieldError{AnnotationExtraDNSNames, name, err.Error()}
		}
		r.DNSNames = append(r.DNSNames, name)
	}
	slices.Sort(r.DNSNames)
	r.DNSNames = slices.Compact(r.DNSNames)
	r.FormerNames = formerNames(svc, limits)
	if len(r.DNSNames) > MaxNames {
		return &FieldError{AnnotationExtraDNSNames, fmt.Sprintf("%d names", len(r.DNSNames)), fmt.Sprintf("must be at most %d, including those of the Service itself", MaxNames)}
	}
	return nil
}

func (r *Request) parseIPs(svc *corev1.Service, limits Limits) error {
	wanted, _, err := valueOf(svc.Annotations, AnnotationClusterIPs, isTrue)
	if err != nil || !wanted {
		return err
	}
	if !limits.PermitClusterIPs {
		return &FieldError{AnnotationClusterIPs, svc.Annotations[AnnotationClusterIPs], "not permitted: the signer was started without --permit-cluster-ips, and its CA excludes all IP addresses"}
	}
	for _, s := range svc.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(s); err == nil { // "None" is not an address
			r.IPs = append(r.IPs, ip)
		}
	}
	slices.SortFunc(r.IPs, netip.Addr.Compare)
	r.IPs = slices.Compact(r.IPs)
	return nil
}

func (r *Request) parseRenewAfter(svc *corev1.Service, _ Limits) (err error) {
	r.RenewAfter, err = RenewAfterOf(svc)
	return err
}

// RenewAfterOf returns the time in AnnotationRenewAfter of the Service, in whole seconds,
// or zero if it has none.
func RenewAfterOf(svc *corev1.Service) (time.Time, error) {
	at, _, err := valueOf(svc.Annotations, AnnotationRenewAfter, func(value string) (time.Time, error) {
		t, err := time.Parse(time.RFC3339, value)
		if err != nil {
			return time.Time{}, errors.New("not a valid time: must be RFC 3339, such as 2026-01-31T12:00:00Z")
		}
		return t.UTC().Truncate(time.Second), nil
	})
	return at, err
}

func (r *Request) parseBackendTLS(svc *corev1.Service, _ Limits) error {
	_, err := WantsBackendTLSPolicy(svc.Annotations)
	return err
}

// WantsBackendTLSPolicy reports whether the annotations of a Service request a
// BackendTLSPolicy. The error is a *FieldError.
func WantsBackendTLSPolicy(annotations map[string]string) (bool, error) {
	wants, _, err := valueOf(annotations, AnnotationBackendTLSPolicy, isTrue)
	return wants, err
}

// hashOf returns the first 16 hex digits of the SHA-256 of v as JSON.
func hashOf(v any) string {
	data, err := json.Marshal(v)
	if err != nil { // only plain data is hashed
		panic(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
