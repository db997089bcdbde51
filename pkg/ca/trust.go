package ca

import (
	"fmt"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// ParseTrust reads the data of ConfigMap api.TrustStatusName. One that is damaged
// counts as a target that does not hold the bundle.
func ParseTrust(data map[string]string) api.TrustStatus {
	s, err := api.ParseTrustStatus(data)
	if err != nil {
		s.Pending++
	}
	return s
}

// maxNamed is how many targets a message names that do not hold the bundle. The
// trust status names more.
const maxNamed = 5

// trustView is what the trust status says about a bundle, and what follows from it
// for the generation that waits.
type trustView struct {
	// missing says which targets are waited for, "" if none is.
	missing string
	// until is when the wait for refusals is over; zero: nothing is waited for that
	// has such an end.
	until time.Time
	// without says which targets are left behind, "" if none is.
	without string
}

// viewTrust judges whether the generation may sign, by who holds the bundle of the
// hash. Nothing is left behind that does not refuse the bundle, unless a person says
// so: see api.TrustGrace and api.TrustLate for who counts.
func viewTrust(s Situation, bundleHash string, generation int) trustView {
	t := s.Trust
	switch {
	case t.BundleHash == "":
		return trustView{missing: fmt.Sprintf("ConfigMap %s does not say that targets hold the bundle: is the rotator running?", api.TrustStatusName)}
	case t.BundleHash != bundleHash:
		return trustView{missing: "the rotator has not taken up the new bundle yet"}
	case s.PromoteDespite == generation && t.Pending+t.Refusing > 0:
		return trustView{without: fmt.Sprintf("%d of %d targets do not hold its root, and a person lets it sign without those", t.Pending+t.Refusing, t.Targets)}
	case s.PromoteDespite == generation:
		return trustView{}
	}
	graceEnds := t.Since.Add(s.RefusalGrace)
	over := !t.Since.IsZero() && !s.Now.Before(graceEnds)
	switch {
	case t.HoldingUp() == 0 && t.Grace == 0:
		return trustView{}
	case t.HoldingUp() == 0 && over:
		return trustView{without: fmt.Sprintf("targets of these namespaces have not held its root for %s: %s", s.RefusalGrace, t.Namespaces)}
	}
	v := trustView{missing: holding(t) + "; not: " + named(t)}
	if t.Grace > 0 && !t.Since.IsZero() && !over {
		v.until = graceEnds
		v.missing += fmt.Sprintf(". Of these namespaces it waits for no target beyond %s: %s", formatTime(graceEnds), t.Namespaces)
	}
	if t.Pending == 0 || t.Grace > 0 {
		v.missing += fmt.Sprintf(". To go on without those: kubectl servingcert rotate-ca --proceed %d", generation)
	}
	return v
}

func holding(t api.TrustStatus) string {
	return fmt.Sprintf("%d of %d targets hold the new root", t.Holding, t.Targets)
}

// named names the first of the targets that do not hold the bundle.
func named(t api.TrustStatus) string {
	lines := t.NotHoldingLines()
	if len(lines) <= maxNamed {
		return strings.Join(lines, "; ")
	}
	return strings.Join(lines[:maxNamed], "; ") + fmt.Sprintf("; %d in all: see ConfigMap %s", t.Pending+t.Refusing, api.TrustStatusName)
}
