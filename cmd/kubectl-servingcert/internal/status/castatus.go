package status

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// CAStatus is the data of ConfigMap api.CAStatusName, in the form of -o json. Its texts
// are escaped (Escape).
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
	// Generations are the newest that there are and were, oldest first.
	Generations []api.CAGenerationRecord `json:"generations,omitempty"`

	facts api.CAStatus // what the above was made from
}

// ParseCA reads the data of the ConfigMap.
func ParseCA(data map[string]string) CAStatus {
	facts := api.ParseCAStatus(data)
	s := CAStatus{
		Generation:      facts.Generation,
		NextGeneration:  facts.NextGeneration,
		Phase:           api.Escape(facts.Phase),
		Since:           moment(facts.Since),
		Why:             api.Escape(facts.Why),
		WaitingFor:      api.Escape(facts.WaitingFor),
		NotAfter:        moment(facts.NotAfter),
		BundleHash:      api.Escape(facts.BundleHash),
		Replaced:        facts.Replaced,
		Certificates:    facts.Certificates,
		Rotation:        api.Escape(facts.Rotation.String()),
		RotationOutcome: api.Escape(facts.RotationOutcome.String()),
		Problem:         api.Escape(facts.Problem.String()),
		facts:           facts,
	}
	for _, w := range facts.Warnings {
		s.Warnings = append(s.Warnings, api.Escape(w.String()))
	}
	for _, g := range facts.Generations {
		g.Origin, g.Root, g.Why = api.Escape(g.Origin), api.Escape(g.Root), api.Escape(g.Why)
		s.Generations = append(s.Generations, g)
	}
	return s
}

// Others describes the generations whose roots are published beside that of the one that signs: what was, and what comes
// next.
func (s CAStatus) Others() []string {
	var lines []string
	for i, g := range s.Generations {
		next := slices.IndexFunc(s.Generations[i+1:], func(later api.CAGenerationRecord) bool { return !later.SignsSince.IsZero() })
		switch {
		case g.Retired || g.Number == s.Generation:
		case !g.SignsSince.IsZero() && next >= 0:
			lines = append(lines, fmt.Sprintf("generation %d signed until %s; its last certificates expire by %s, and its root stays in the bundle until then",
				g.Number, utc(s.Generations[i+1+next].SignsSince), utc(g.UsedUntil)))
		case !g.SignsSince.IsZero():
			lines = append(lines, fmt.Sprintf("generation %d has signed since %s", g.Number, utc(g.SignsSince)))
		case g.TrustedAt.IsZero():
			lines = append(lines, fmt.Sprintf("generation %d has been published since %s, and does not sign before every target holds its root", g.Number, utc(g.MadeAt)))
		default:
			lines = append(lines, fmt.Sprintf("generation %d has been held by every target since %s, and signs next", g.Number, utc(g.TrustedAt)))
		}
	}
	return lines
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// NoCA returns the problem if it leaves no CA that could issue a certificate; else "".
func (s CAStatus) NoCA() string {
	if !noCA(s.facts.Problem.Reason) {
		return ""
	}
	return s.Problem
}

// TrustStatus is the data of ConfigMap api.TrustStatusName, in the form of -o json. Its
// texts are escaped (Escape).
type TrustStatus struct {
	BundleHash string   `json:"bundleHash"`
	Targets    int      `json:"targets"`
	Holding    int      `json:"holding"`
	Pending    int      `json:"pending"`
	Refusing   int      `json:"refusing"`
	NotHolding []string `json:"notHolding,omitempty"`
	Problem    string   `json:"problem,omitempty"`
	// Since is when the rotator took up the bundle. Late and Grace are those of Pending
	// and Refusing that a new generation does not wait for, or only for a time, and
	// GraceNamespaces names the namespaces of Grace.
	Since           *time.Time `json:"since,omitempty"`
	Late            int        `json:"late"`
	Grace           int        `json:"grace"`
	GraceNamespaces string     `json:"graceNamespaces,omitempty"`
}

// ParseTrust reads the data of the ConfigMap.
func ParseTrust(data map[string]string) TrustStatus {
	s, _ := api.ParseTrustStatus(data) // what cannot be read counts nothing
	notHolding := s.NotHoldingLines()
	for i, line := range notHolding {
		notHolding[i] = api.Escape(line)
	}
	return TrustStatus{
		BundleHash: api.Escape(s.BundleHash),
		Targets:    s.Targets,
		Holding:    s.Holding,
		Pending:    s.Pending,
		Refusing:   s.Refusing,
		NotHolding: notHolding,
		Problem:    api.Escape(s.Problem),

		Since:           moment(s.Since),
		Late:            s.Late,
		Grace:           s.Grace,
		GraceNamespaces: api.Escape(s.Namespaces),
	}
}

// moment returns t, nil if it is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
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
	switch {
	case s.Behind() && s.Phase == api.PhaseReissue: // the rest waits for these
		text += fmt.Sprintf(", %d left", *s.Certificates-*s.Replaced)
	case s.WaitingFor != "":
		text += "; " + s.WaitingFor
	}
	if s.Problem != "" {
		text += "; problem: " + s.Problem
	}
	return text
}

// Imported reports whether the CA with the root, by its fingerprint, has been imported and has
// begun to sign. The error is why it is not imported.
func (s CAStatus) Imported(root string) (bool, error) {
	for _, g := range s.facts.Generations {
		if g.Root == root {
			return !g.SignsSince.IsZero() && s.SignsAlone(), nil
		}
	}
	for _, w := range s.facts.Warnings {
		if w.Reason == api.CAImportInvalid {
			return false, errors.New(api.Escape(w.Message))
		}
	}
	return false, nil
}

// SignsAlone reports whether no certificate is being replaced.
func (s CAStatus) SignsAlone() bool { return s.Phase == api.PhaseRetire || s.Phase == api.PhaseStable }

// Behind reports whether there are certificates of older generations.
func (s CAStatus) Behind() bool {
	return s.Replaced != nil && s.Certificates != nil && *s.Replaced < *s.Certificates
}

// Answers reports whether the request is the last one that was answered, and
// whether the answer was no.
func (s CAStatus) Answers(r api.RotateRequest) (answered, refused bool) {
	return s.facts.Rotation == r, s.facts.RotationOutcome.Refused
}
