package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// caStatus is what ConfigMap api.CAStatusName says, in the form of -o json.
type caStatus struct {
	Generation     int        `json:"generation"` // 0: none signs
	NextGeneration int        `json:"nextGeneration,omitempty"`
	Phase          string     `json:"phase,omitempty"`
	Since          *time.Time `json:"since,omitempty"`
	Why            string     `json:"why,omitempty"`
	WaitingFor     string     `json:"waitingFor,omitempty"`
	NotAfter       *time.Time `json:"notAfter,omitempty"`
	BundleHash     string     `json:"bundleHash,omitempty"`
	// Replaced of Certificates are signed by Generation; both nil in phases in which
	// nobody counts.
	Replaced        *int     `json:"certificatesReplaced,omitempty"`
	Certificates    *int     `json:"certificates,omitempty"`
	Rotation        string   `json:"rotation,omitempty"` // MODE:REASON
	RotationOutcome string   `json:"rotationOutcome,omitempty"`
	Problem         string   `json:"problem,omitempty"`
	Warnings        []string `json:"warnings,omitempty"`

	facts api.CAStatus // what the above was made from
}

func parseCA(data map[string]string) caStatus {
	facts := api.ParseCAStatus(data)
	s := caStatus{
		Generation:      facts.Generation,
		NextGeneration:  facts.NextGeneration,
		Phase:           facts.Phase,
		Since:           moment(facts.Since),
		Why:             facts.Why,
		WaitingFor:      facts.WaitingFor,
		NotAfter:        moment(facts.NotAfter),
		BundleHash:      facts.BundleHash,
		Replaced:        facts.Replaced,
		Certificates:    facts.Certificates,
		Rotation:        facts.Rotation.String(),
		RotationOutcome: facts.RotationOutcome.String(),
		Problem:         facts.Problem.String(),
		facts:           facts,
	}
	for _, w := range facts.Warnings {
		s.Warnings = append(s.Warnings, w.String())
	}
	return s
}

// trustStatus is what ConfigMap api.TrustStatusName says, in the form of -o json.
type trustStatus struct {
	BundleHash string   `json:"bundleHash"`
	Targets    int      `json:"targets"`
	Holding    int      `json:"holding"`
	Pending    int      `json:"pending"`
	Refusing   int      `json:"refusing"`
	NotHolding []string `json:"notHolding,omitempty"`
	Problem    string   `json:"problem,omitempty"`
}

func parseTrust(data map[string]string) trustStatus {
	return trustStatus{
		BundleHash: data[api.TrustBundleHash],
		Targets:    number(data[api.TrustTargets]),
		Holding:    number(data[api.TrustHolding]),
		Pending:    number(data[api.TrustPending]),
		Refusing:   number(data[api.TrustRefusing]),
		NotHolding: lines(data[api.TrustNotHolding]),
		Problem:    data[api.TrustProblem],
	}
}

// number reads what a status says; what is absent or no number is 0.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// moment returns t, nil if it is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// progress says in one line how far a succession is and what it waits for.
func (s caStatus) progress() string {
	text := s.Phase
	switch s.Phase {
	case "":
		text = "no generation signs"
	case api.PhaseWait:
		text += fmt.Sprintf(": generation %d signs, %d is to follow", s.Generation, s.NextGeneration)
	default:
		text += fmt.Sprintf(": generation %d signs", s.Generation)
	}
	if s.Replaced != nil && s.Certificates != nil {
		text += fmt.Sprintf(", %d of %d certificates are signed by it", *s.Replaced, *s.Certificates)
	}
	if s.WaitingFor != "" {
		text += "; " + s.WaitingFor
	}
	if s.Problem != "" {
		text += "; problem: " + s.Problem
	}
	return text
}

// caConfigMap reads the status of the CA. That there is none is said in words.
func (c *cluster) caConfigMap(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	cm, err := c.client.CoreV1().ConfigMaps(namespace).Get(ctx, api.CAStatusName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, notInstalledError{namespace}
	}
	if err != nil {
		return nil, fmt.Errorf("read the CA's status: %w", err)
	}
	return cm, nil
}

// notInstalledError: there is no CA status.
type notInstalledError struct{ namespace string }

func (e notInstalledError) Error() string {
	return fmt.Sprintf("namespace %q has no ConfigMap %s: servingcert is not installed there, or its signer has not started yet", e.namespace, api.CAStatusName)
}

// trust reads the trust status; nil if the rotator wrote none.
func (c *cluster) trust(ctx context.Context, namespace string) (*trustStatus, error) {
	cm, err := c.client.CoreV1().ConfigMaps(namespace).Get(ctx, api.TrustStatusName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the trust status: %w", err)
	}
	status := parseTrust(cm.Data)
	return &status, nil
}
