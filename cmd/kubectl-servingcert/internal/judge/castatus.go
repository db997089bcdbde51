package judge

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// CAStatus is the data of ConfigMap api.CAStatusName, in the form of -o json.
type CAStatus struct {
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
}

// ParseCA reads the data of the ConfigMap.
func ParseCA(data map[string]string) CAStatus {
	return CAStatus{
		Generation:      number(data[api.CAGeneration]),
		NextGeneration:  number(data[api.CANextGeneration]),
		Phase:           data[api.CAPhase],
		Since:           moment(data[api.CASince]),
		Why:             data[api.CAWhy],
		WaitingFor:      data[api.CAWaitingFor],
		NotAfter:        moment(data[api.CANotAfter]),
		BundleHash:      data[api.CABundleHash],
		Replaced:        count(data, api.CAReplaced),
		Certificates:    count(data, api.CALeaves),
		Rotation:        data[api.CARotation],
		RotationOutcome: data[api.CARotationOutcome],
		Problem:         data[api.CAProblem],
		Warnings:        lines(data[api.CAWarning]),
	}
}

// TrustStatus is the data of ConfigMap api.TrustStatusName, in the form of -o json.
type TrustStatus struct {
	BundleHash string   `json:"bundleHash"`
	Targets    int      `json:"targets"`
	Holding    int      `json:"holding"`
	Pending    int      `json:"pending"`
	Refusing   int      `json:"refusing"`
	NotHolding []string `json:"notHolding,omitempty"`
	Problem    string   `json:"problem,omitempty"`
}

// ParseTrust reads the data of the ConfigMap.
func ParseTrust(data map[string]string) TrustStatus {
	return TrustStatus{
		BundleHash: data[api.TrustBundleHash],
		Targets:    number(data[api.TrustTargets]),
		Holding:    number(data[api.TrustHolding]),
		Pending:    number(data[api.TrustPending]),
		Refusing:   number(data[api.TrustRefusing]),
		NotHolding: lines(data[api.TrustNotHolding]),
		Problem:    data[api.TrustProblem],
	}
}

// number returns the number in a status; 0 if it is absent or not a number.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func count(data map[string]string, key string) *int {
	n, err := strconv.Atoi(data[key])
	if err != nil {
		return nil
	}
	return &n
}

func moment(s string) *time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
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

// Progress returns a line about how far a succession is and what it waits for.
func (s CAStatus) Progress() string {
	text := s.Phase
	switch s.Phase {
	case "":
		text = "no generation signs"
	case api.PhaseWait:
		text += fmt.Sprintf(": generation %d signs, generation %d is next", s.Generation, s.NextGeneration)
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

// SignsAlone reports whether no certificate is being replaced.
func (s CAStatus) SignsAlone() bool { return s.Phase == api.PhaseRetire || s.Phase == api.PhaseStable }

// Behind reports whether there are certificates of older generations.
func (s CAStatus) Behind() bool {
	return s.Replaced != nil && s.Certificates != nil && *s.Replaced < *s.Certificates
}

// refusedPrefix is how api.CARotationOutcome begins if the answer was no.
const refusedPrefix = "refused"

// Refused reports whether the answer to the last request was no.
func (s CAStatus) Refused() bool { return strings.HasPrefix(s.RotationOutcome, refusedPrefix) }
