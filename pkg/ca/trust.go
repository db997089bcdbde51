package ca

import (
	"fmt"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
)

// ParseTrust reads the data of ConfigMap api.TrustStatusName. If the data is damaged,
// that counts as a target that does not hold the bundle.
func ParseTrust(data map[string]string) api.TrustStatus {
	s, err := api.ParseTrustStatus(data)
	if err != nil {
		s.Pending++
	}
	return s
}

// maxNamed is how many targets without the bundle a message names. The trust status
// names more.
const maxNamed = 5

// trustView is whether the targets hold a bundle, for the waiting generation.
type trustView struct {
	// missing describes the targets that the generation waits for; "" for none.
	missing string
	// until is when the wait for refusing targets ends; zero if there is no such limit.
	until time.Time
	// without describes the targets that are left behind; "" for none.
	without string
}

// viewTrust decides whether the generation may sign, from the targets that hold the
// bundle with the hash. Only targets that refuse the bundle are left behind, unless a
// person decides otherwise: see api.TrustGrace and api.TrustLate for which count. The
// rotator does not check its clock, so the grace begins no sooner than the generation.
func viewTrust(s Situation, bundleHash string, generation Generation) trustView {
	t := s.Trust
	switch {
	case s.forClients() && t.BundleHash != bundleHash:
		return trustView{missing: s.Objects().Trust + " does not have its root yet"}
	case t.BundleHash == "":
		return trustView{missing: fmt.Sprintf("ConfigMap %s does not report which targets hold the bundle: is the rotator running?", api.TrustStatusName)}
	case t.BundleHash != bundleHash:
		return trustView{missing: "the rotator has not observed the new bundle yet"}
	case s.PromoteDespite == generation.Number && t.Pending+t.Refusing > 0:
		return trustView{without: fmt.Sprintf("%d of %d targets do not hold its root, and a person allowed it to sign without them", t.Pending+t.Refusing, t.Targets)}
	case s.PromoteDespite == generation.Number:
		return trustView{}
	}
	graceEnds := limit.Latest(t.Since, generation.MadeAt).Add(s.RefusalGrace)
	over := !t.Since.IsZero() && !s.Now.Before(graceEnds)
	switch {
	case t.HoldingUp() == 0 && t.Grace == 0:
		return trustView{}
	case t.HoldingUp() == 0 && over:
		return trustView{without: fmt.Sprintf("targets in these namespaces have not held its root for %s: %s", s.RefusalGrace, t.Namespaces)}
	}
	v := trustView{missing: holding(t) + "; not: " + named(t)}
	if t.Grace > 0 && !t.Since.IsZero() && !over {
		v.until = graceEnds
		v.missing += fmt.Sprintf(". It does not wait for targets in these namespaces after %s: %s", formatTime(graceEnds), t.Namespaces)
	}
	if t.Pending == 0 || t.Grace > 0 {
		v.missing += fmt.Sprintf(". To continue without them: %s --proceed %d", s.Objects().Rotate, generation.Number)
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
	return strings.Join(lines[:maxNamed], "; ") + fmt.Sprintf("; %d in total: see ConfigMap %s", t.Pending+t.Refusing, api.TrustStatusName)
}
