package api

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Keys of ConfigMap TrustStatusName, which the rotator writes: what the signer
// knows of who trusts a new generation of the CA. TrustStatus formats and parses
// them.
const (
	// TrustBundleHash is the SHA-256, in hex, of the bundle that the targets are
	// to hold; "" if there is none. The counts are of this bundle.
	TrustBundleHash = "bundle-hash"
	// TrustTargets is how many targets there are.
	TrustTargets = "targets"
	// TrustHolding is how many of them hold the bundle.
	TrustHolding = "holding"
	// TrustPending is how many do not yet, and TrustRefusing how many cannot be
	// written. The three add up to TrustTargets.
	TrustPending  = "pending"
	TrustRefusing = "refusing"
	// TrustNotHolding names those that do not hold it, one in a line, at most
	// TrustMaxListed: "KIND NAMESPACE/NAME: REASON: MESSAGE". For people.
	TrustNotHolding = "not-holding"
	// TrustProblem says why there is no bundle; "" if there is one. For people.
	TrustProblem = "problem"
	// TrustSince is when the rotator took up the bundle, RFC 3339; "" if there is
	// none.
	TrustSince = "since"
	// TrustLate is how many of those that do not hold the bundle have requested it
	// only since then. They hold up no new generation of the CA.
	TrustLate = "late"
	// TrustGrace is how many of the others are in a namespace, and refuse the bundle or
	// held it and lost it again. They hold up a new generation until the signer's grace
	// for refusals is over. What is left of TrustPending and TrustRefusing holds it up
	// without limit.
	TrustGrace = "grace"
	// TrustNamespaces names the namespaces of TrustGrace, at most TrustMaxNamespaces.
	// For people.
	TrustNamespaces = "grace-namespaces"
)

const (
	// TrustMaxListed is how many targets TrustNotHolding names at most. A last line
	// counts the rest.
	TrustMaxListed = 50
	// TrustMaxNamespaces is how many namespaces TrustNamespaces names at most.
	TrustMaxNamespaces = 10
	// TrustMaxMessage bounds the message about each of them, in characters.
	TrustMaxMessage = 200
	// TrustAllOfKind stands in place of a name for the targets of a kind that cannot
	// be listed or watched. No object has this name.
	TrustAllOfKind = "(all)"
)

// TrustStatus is what ConfigMap TrustStatusName says.
type TrustStatus struct {
	// BundleHash is the SHA-256, in hex, of the bundle that the targets are to hold;
	// "" if there is none.
	BundleHash string
	// Targets is the sum of Holding, Pending and Refusing.
	Targets, Holding, Pending, Refusing int
	// NotHolding are targets that do not hold the bundle: all of them if Unlisted is
	// 0. Pending and Refusing count all in any case.
	NotHolding []TrustTarget
	// Unlisted is how many more targets do not hold it.
	Unlisted int
	// Problem says why there is no bundle; "" if there is one. For people.
	Problem string
	// Since is when the rotator took up the bundle; zero if there is none.
	Since time.Time
	// Late and Grace are those of Pending and Refusing that hold up no new generation
	// of the CA, and those that hold it up for a limited time (TrustLate, TrustGrace).
	Late, Grace int
	// Namespaces names the namespaces of Grace. For people.
	Namespaces string
}

// HoldingUp returns how many targets hold up a new generation of the CA without
// limit: those of Pending and Refusing that Late and Grace do not count. It is below
// zero if the counts contradict each other.
func (s TrustStatus) HoldingUp() int { return s.Pending + s.Refusing - s.Late - s.Grace }

// TrustTarget is a target that does not hold the bundle.
type TrustTarget struct {
	Kind      string // as --targets names it
	Namespace string // "" for an object of the cluster
	Name      string // TrustAllOfKind: those of the kind that cannot be seen
	Reason    string
	Message   string // for people; all there is of a line that says something else
}

// String returns "KIND NAMESPACE/NAME: REASON: MESSAGE" in one line, without the
// namespace if there is none. The message is cut to TrustMaxMessage characters.
func (t TrustTarget) String() string {
	message := Shorten(strings.Join(strings.Fields(t.Message), " "), TrustMaxMessage)
	if t.Kind == "" {
		return message
	}
	place := t.Name
	if t.Namespace != "" {
		place = t.Namespace + "/" + t.Name
	}
	return t.Kind + " " + place + ": " + t.Reason + ": " + message
}

// parseTrustTarget reads what String returned. Any other line becomes the message.
func parseTrustTarget(line string) TrustTarget {
	// The name of an object may hold a colon, but none followed by a space.
	kind, rest, ok1 := strings.Cut(line, " ")
	place, rest, ok2 := strings.Cut(rest, ": ")
	reason, message, ok3 := strings.Cut(rest, ": ")
	if !ok1 || !ok2 || !ok3 || kind == "" || strings.ContainsAny(kind, ":/") || strings.Contains(place, " ") || strings.Contains(reason, " ") {
		return TrustTarget{Message: line}
	}
	t := TrustTarget{Kind: kind, Name: place, Reason: reason, Message: message}
	if namespace, name, ok := strings.Cut(place, "/"); ok && namespace != "" {
		t.Namespace, t.Name = namespace, name
	}
	return t
}

// unlistedFormat is the last line of TrustNotHolding where it is partial.
const unlistedFormat = "and %d more"

// NotHoldingLines returns a line for each target of NotHolding, at most
// TrustMaxListed, and one that counts the rest if there are more.
func (s TrustStatus) NotHoldingLines() []string {
	var lines []string
	unlisted := s.Unlisted
	for i, t := range s.NotHolding {
		if i == TrustMaxListed {
			unlisted += len(s.NotHolding) - TrustMaxListed
			break
		}
		lines = append(lines, t.String())
	}
	if unlisted > 0 {
		lines = append(lines, fmt.Sprintf(unlistedFormat, unlisted))
	}
	return lines
}

// Data returns the ConfigMap's data. It holds no time that passes, so that equal
// status is equal data, and every key always, so that none that someone else set
// survives.
func (s TrustStatus) Data() map[string]string {
	return map[string]string{
		TrustBundleHash: s.BundleHash,
		TrustTargets:    strconv.Itoa(s.Targets),
		TrustHolding:    strconv.Itoa(s.Holding),
		TrustPending:    strconv.Itoa(s.Pending),
		TrustRefusing:   strconv.Itoa(s.Refusing),
		TrustNotHolding: strings.Join(s.NotHoldingLines(), "\n"),
		TrustProblem:    s.Problem,
		TrustSince:      formatTime(s.Since),
		TrustLate:       strconv.Itoa(s.Late),
		TrustGrace:      strconv.Itoa(s.Grace),
		TrustNamespaces: s.Namespaces,
	}
}

// ParseTrustStatus returns what the data of ConfigMap TrustStatusName says. An
// error names the keys that are missing or hold no count. Those counts are 0, so
// that the status then shows no more than what can be read: it is no evidence that
// every target holds the bundle.
func ParseTrustStatus(data map[string]string) (TrustStatus, error) {
	s := TrustStatus{BundleHash: data[TrustBundleHash], Problem: data[TrustProblem], Since: parseTime(data[TrustSince]), Namespaces: data[TrustNamespaces]}
	var errs []error
	for _, count := range []struct {
		key  string
		into *int
	}{{TrustTargets, &s.Targets}, {TrustHolding, &s.Holding}, {TrustPending, &s.Pending}, {TrustRefusing, &s.Refusing}, {TrustLate, &s.Late}, {TrustGrace, &s.Grace}} {
		if _, there := data[count.key]; !there && (count.key == TrustLate || count.key == TrustGrace) {
			continue // an older rotator does not tell these apart: all are waited for
		}
		n, err := strconv.Atoi(data[count.key])
		if err != nil || n < 0 {
			errs = append(errs, fmt.Errorf("key %s: %q: must be a count", count.key, data[count.key]))
			continue
		}
		*count.into = n
	}
	if text := data[TrustNotHolding]; text != "" {
		lines := strings.Split(text, "\n")
		if last := len(lines) - 1; isUnlisted(lines[last], &s.Unlisted) {
			lines = lines[:last]
		}
		for _, line := range lines {
			s.NotHolding = append(s.NotHolding, parseTrustTarget(line))
		}
	}
	return s, errors.Join(errs...)
}

// isUnlisted reports whether the line counts what is not listed, and sets n to it.
func isUnlisted(line string, n *int) bool {
	var count int
	if _, err := fmt.Sscanf(line, unlistedFormat, &count); err != nil || count <= 0 || fmt.Sprintf(unlistedFormat, count) != line {
		return false
	}
	*n = count
	return true
}
