package status

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// CA is the data of ConfigMap api.CAStatusName, in the form of -o json. Its texts are
// escaped (api.Escape).
type CA struct {
	Generation     int        `json:"generation"` // 0: no generation signs
	NextGeneration int        `json:"nextGeneration,omitempty"`
	Phase          string     `json:"phase,omitempty"`
	Since          *time.Time `json:"since,omitempty"`
	Why            string     `json:"why,omitempty"`
	WaitingFor     string     `json:"waitingFor,omitempty"`
	NotAfter       *time.Time `json:"notAfter,omitempty"`
	BundleHash     string     `json:"bundleHash,omitempty"`
	// Replaced is the number of Certificates that Generation has signed. Both are nil in
	// phases without a count.
	Replaced        *int     `json:"certificatesReplaced,omitempty"`
	Certificates    *int     `json:"certificates,omitempty"`
	Rotation        string   `json:"rotation,omitempty"` // MODE:REASON
	RotationOutcome string   `json:"rotationOutcome,omitempty"`
	Problem         string   `json:"problem,omitempty"`
	Warnings        []string `json:"warnings,omitempty"`
	// Generations lists the newest generations, retired ones included, oldest first.
	Generations []api.CAGenerationRecord `json:"generations,omitempty"`

	facts api.CAStatus // the parsed ConfigMap
}

// ParseCA reads the data of the ConfigMap.
func ParseCA(data map[string]string) CA {
	facts := api.ParseCAStatus(data)
	s := CA{
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

// Others describes the other generations whose roots are published: former ones, and the next.
func (s CA) Others() []string {
	var lines []string
	for i, g := range s.Generations {
		next := slices.IndexFunc(s.Generations[i+1:], func(later api.CAGenerationRecord) bool { return !later.SignsSince.IsZero() })
		switch {
		case g.Retired || g.Number == s.Generation:
		case !g.SignsSince.IsZero() && next >= 0:
			lines = append(lines, fmt.Sprintf("generation %d signed until %s; its last certificates expire by %s, and its root stays in the bundle at least until then",
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

// NoCA returns the problem if no CA can issue certificates because of it, and "" otherwise.
func (s CA) NoCA() string {
	if !noCA(s.facts.Problem.Reason) {
		return ""
	}
	return s.Problem
}

// Trust is the data of ConfigMap api.TrustStatusName, in the form of -o json. Its texts
// are escaped (api.Escape).
type Trust struct {
	BundleHash string   `json:"bundleHash"`
	Targets    int      `json:"targets"`
	Holding    int      `json:"holding"`
	Pending    int      `json:"pending"`
	Refusing   int      `json:"refusing"`
	NotHolding []string `json:"notHolding,omitempty"`
	Problem    string   `json:"problem,omitempty"`
	// Since is when the rotator took up the bundle. Of Pending and Refusing, a new
	// generation does not wait for Late, and waits for Grace only for a limited time.
	// GraceNamespaces names the namespaces of Grace.
	Since           *time.Time `json:"since,omitempty"`
	Late            int        `json:"late"`
	Grace           int        `json:"grace"`
	GraceNamespaces string     `json:"graceNamespaces,omitempty"`
}

// ParseTrust reads the data of the ConfigMap.
func ParseTrust(data map[string]string) Trust {
	s, _ := api.ParseTrustStatus(data) // fields that cannot be parsed are zero
	notHolding := s.NotHoldingLines()
	for i, line := range notHolding {
		notHolding[i] = api.Escape(line)
	}
	return Trust{
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

// moment returns a pointer to t, or nil if t is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Progress returns a line with the phase of the CA and what it waits for.
func (s CA) Progress() string {
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
	case s.Behind() && s.Phase == api.PhaseReissue: // the phase waits for these
		text += fmt.Sprintf(", %d left", *s.Certificates-*s.Replaced)
	case s.WaitingFor != "":
		text += "; " + s.WaitingFor
	}
	if s.Problem != "" {
		text += "; problem: " + s.Problem
	}
	return text
}

// Imported reports whether the CA with this fingerprint of its root has been imported and
// signs. The error is why it is not imported.
func (s CA) Imported(root string) (bool, error) {
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

// SignsAlone reports whether the CA is in a phase in which no certificate is replaced.
func (s CA) SignsAlone() bool { return s.Phase == api.PhaseRetire || s.Phase == api.PhaseStable }

// Behind reports whether some certificates are from older generations.
func (s CA) Behind() bool {
	return s.Replaced != nil && s.Certificates != nil && *s.Replaced < *s.Certificates
}

// Answers reports whether the last answered request is r, and whether it was refused.
func (s CA) Answers(r api.RotateRequest) (answered, refused bool) {
	return s.facts.Rotation == r, s.facts.RotationOutcome.Refused
}
