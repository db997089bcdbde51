package doctor

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Facts are the state of a cluster. A part that is nil was not read, and its checks are
// not made.
type Facts struct {
	// Failures are the objects that could not be read.
	Failures     []Failure
	Platform     *Platform
	Installation *Installation
	Authority    *State
	// Identities is the CA for clients; nil if there is none, or it was not read.
	Identities *State
	// Namespaces are those with anything of ours in them; nil if they were not read.
	Namespaces []Namespace
}

// Failure is a read that failed, and the checks that were skipped because of it.
type Failure struct {
	What, Why string
	Kind      FailureKind
	Checks    []ID
}

// FailureKind is how a read failed.
type FailureKind int

// The kinds of failures.
const (
	ReadFailed    FailureKind = iota // an error; the skipped checks may pass the next time
	ReadForbidden                    // the user lacks the right to read it
	ReadNotTried                     // nothing was asked, for the reason in Why
)

// Examine returns the report. now is the time of the API server.
func (f Facts) Examine(now time.Time) Report {
	if f.Installation != nil {
		if absent := f.Installation.absent(now); absent != nil {
			return NewReport([]Finding{*absent}, nil)
		}
	}
	findings, made := f.unread(), []ID{NotLooked}
	add := func(group Group, list []Finding) {
		findings = append(findings, list...)
		for _, c := range checks {
			if c.Group == group {
				made = append(made, c.ID)
			}
		}
	}
	if f.Platform != nil {
		add(Before, f.Platform.evaluate())
	}
	if f.Installation != nil {
		add(System, f.Installation.evaluate(now))
		made = append(made, NotOptedIn)
		if f.Installation.DryRun == nil && !f.failed(WebhookReached) {
			findings = append(findings, found(NotOptedIn, "", "this user may create pods in no opted-in namespace (at most 20 were tried): the webhook was not tested"))
		}
	}
	if f.Authority != nil {
		add(Authority, f.Authority.evaluate(now))
	}
	if f.Identities != nil {
		findings = append(findings, f.Identities.evaluate(now)...)
	}
	if f.Namespaces != nil {
		made = append(made, SignerClock)
		add(Services, nil)
		add(Workloads, nil)
		for _, n := range f.Namespaces {
			n.now = now
			findings = append(findings, n.Findings()...)
		}
		made = slices.DeleteFunc(made, func(id ID) bool { return id == Unreadable || id == InjectedPart }) // made from manifests only
	}
	if slices.ContainsFunc(findings, func(f Finding) bool { return f.ID == NoConsumers }) {
		made = slices.DeleteFunc(made, func(id ID) bool { return id == NotServed }) // without ready pods, the rotator has not seen the certificate
	}
	made = slices.DeleteFunc(made, func(id ID) bool { return f.unmade(id) })
	slices.Sort(made)
	return NewReport(findings, slices.Compact(made))
}

// maxForbidden is the number of kinds without read access that a finding names.
const maxForbidden = 5

// unread returns the findings about failed reads. All missing rights are one finding,
// because they have one cause.
func (f Facts) unread() []Finding {
	var findings []Finding
	var forbidden []string
	for _, failure := range f.Failures {
		if failure.Kind == ReadForbidden {
			forbidden = append(forbidden, failure.What)
		}
	}
	for _, failure := range f.Failures {
		if failure.Kind != ReadForbidden || len(forbidden) == 1 {
			f := found(NotLooked, failure.What, "could not be read: %s", failure.Why)
			if failure.Kind == ReadFailed {
				f = f.as(Error)
			}
			findings = append(findings, f)
		}
	}
	if n := len(forbidden); n > 1 {
		findings = append(findings, found(NotLooked, "", "this user may not read %s", api.ListedTexts(forbidden, maxForbidden)))
	}
	return findings
}

// unmade reports whether a check was skipped because a read failed.
func (f Facts) unmade(id ID) bool {
	if id == WebhookReached && (f.Installation == nil || f.Installation.DryRun == nil) {
		return true
	}
	if id == KubeletServing && (f.Installation == nil || f.Installation.KubeletRequests == nil) {
		return true
	}
	if id == SignerClock && f.Namespaces == nil || id == NotOptedIn && f.failed(WebhookReached) {
		return true
	}
	return f.failed(id)
}

// failed reports whether a read that the check needs has failed.
func (f Facts) failed(id ID) bool {
	return slices.ContainsFunc(f.Failures, func(failure Failure) bool { return slices.Contains(failure.Checks, id) })
}
