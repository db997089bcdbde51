package api

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Keys of ConfigMap TrustStatusName, which the rotator writes. The signer reads from it
// whether a new generation of the CA is trusted. TrustStatus formats and parses them.
const (
	// TrustBundleHash is the SHA-256, in hex, of the bundle that the targets must hold;
	// "" if there is none. The counts are about this bundle.
	TrustBundleHash = "bundle-hash"
	// TrustTargets is the number of targets.
	TrustTargets = "targets"
	// TrustHolding is the number of targets that hold the bundle.
	TrustHolding = "holding"
	// TrustPending is the number of targets that do not hold it yet, and TrustRefusing of
	// those that cannot be written. The three add up to TrustTargets.
	TrustPending  = "pending"
	TrustRefusing = "refusing"
	// TrustNotHolding lists targets that do not hold it, one per line, at most
	// TrustMaxListed: "KIND NAMESPACE/NAME: REASON: MESSAGE". For people.
	TrustNotHolding = "not-holding"
	// TrustProblem is why there is no bundle; "" if there is one. For people.
	TrustProblem = "problem"
	// TrustSince is when the rotator first observed the bundle, RFC 3339; "" if there is
	// none.
	TrustSince = "since"
	// TrustLate is the number of targets without the bundle that requested it only after
	// TrustSince. They do not delay a new generation of the CA.
	TrustLate = "late"
	// TrustGrace is the number of the other targets that are in a namespace, and refuse the
	// bundle or held it and lost it again. They delay a new generation until the signer's
	// grace for refusals is over. The rest of TrustPending and TrustRefusing delay it
	// until the signing generation is about to expire.
	TrustGrace = "grace"
	// TrustNamespaces names the namespaces of TrustGrace, at most TrustMaxNamespaces.
	// For people.
	TrustNamespaces = "grace-namespaces"
)

const (
	// TrustMaxListed is the largest number of targets in TrustNotHolding. A last line
	// counts the others.
	TrustMaxListed = 50
	// TrustMaxNamespaces is the largest number of namespaces in TrustNamespaces.
	TrustMaxNamespaces = 10
	// TrustMaxMessage bounds the message about each target, in characters.
	TrustMaxMessage = 200
	// TrustAllOfKind replaces the name for the targets of a kind that cannot be listed or
	// watched. No object has this name.
	TrustAllOfKind = "(all)"
)

// TrustStatus is the content of ConfigMap TrustStatusName.
type TrustStatus struct {
	// BundleHash is the SHA-256, in hex, of the bundle that the targets must hold; "" if
	// there is none.
	BundleHash string
	// Targets is the sum of Holding, Pending and Refusing.
	Targets, Holding, Pending, Refusing int
	// NotHolding are targets that do not hold the bundle: all of them if Unlisted is 0.
	// Pending and Refusing always count all.
	NotHolding []TrustTarget
	// Unlisted is the number of other targets that do not hold it.
	Unlisted int
	// Problem is why there is no bundle; "" if there is one. For people.
	Problem string
	// Since is when the rotator first observed the bundle; zero if there is none.
	Since time.Time
	// Late counts those of Pending and Refusing that do not delay a new generation of the
	// CA, and Grace those that delay it for a limited time (TrustLate, TrustGrace).
	Late, Grace int
	// Namespaces names the namespaces of Grace. For people.
	Namespaces string
}

// HoldingUp returns the number of targets that delay a new generation of the CA without
// limit: those of Pending and Refusing that Late and Grace do not count. It is negative
// if the counts contradict each other.
func (s TrustStatus) HoldingUp() int { return s.Pending + s.Refusing - s.Late - s.Grace }

// TrustTarget is a target that does not hold the bundle.
type TrustTarget struct {
	Kind      string // a value of --targets
	Namespace string // "" for a cluster-scoped object
	Name      string // TrustAllOfKind if the kind cannot be listed or watched
	Reason    string
	Message   string // for people; the whole line if it has another form
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

// Data returns the ConfigMap's data. It does not contain the current time, so that equal
// statuses give equal data. It always has every key, so that values of other writers are
// overwritten.
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

// ParseTrustStatus reads the data of ConfigMap TrustStatusName. An error names the keys
// that are missing or not a count. Those counts are 0 in the status, which then does not
// prove that every target holds the bundle.
func ParseTrustStatus(data map[string]string) (TrustStatus, error) {
	s := TrustStatus{BundleHash: data[TrustBundleHash], Problem: data[TrustProblem], Since: parseTime(data[TrustSince]), Namespaces: data[TrustNamespaces]}
	var errs []error
	for _, count := range []struct {
		key  string
		into *int
	}{{TrustTargets, &s.Targets}, {TrustHolding, &s.Holding}, {TrustPending, &s.Pending}, {TrustRefusing, &s.Refusing}, {TrustLate, &s.Late}, {TrustGrace, &s.Grace}} {
		if _, there := data[count.key]; !there && (count.key == TrustLate || count.key == TrustGrace) {
			continue // an older rotator does not distinguish these: all are waited for
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

// isUnlisted reports whether the line counts the unlisted targets, and sets n to the count.
func isUnlisted(line string, n *int) bool {
	var count int
	if _, err := fmt.Sscanf(line, unlistedFormat, &count); err != nil || count <= 0 || fmt.Sprintf(unlistedFormat, count) != line {
		return false
	}
	*n = count
	return true
}
