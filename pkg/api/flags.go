package api

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// An attempt is what a container is given to serve TLS, beside files and variables that no
// program minds, without an explicit request: flags that its program may
// not know. It is named by a hash, so that two processes can speak of it.

// AttemptOf returns the name of the attempt to give a program what given says. image is the
// image's name without tag and digest, executable what the command starts, empty for what
// the image starts, and words the subcommand or script after it. All other arguments do
// not matter: they do not change which flags a program knows, and each release of a chart
// may change one.
func AttemptOf(image, executable string, words, given []string) string {
	text := make([]byte, 0, 512) // an ordinary one is shorter
	for _, part := range [...][]string{{image, executable}, words, given} {
		for _, s := range part {
			text = append(append(text, s...), 0)
		}
		text = append(text, 1)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:attemptBytes])
}

const attemptBytes = 8

func isAttempt(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == attemptBytes && strings.ToLower(s) == s
}

// Verdict is what the rotator found out about an attempt.
type Verdict string

// The verdicts.
const (
	// VerdictWithheld: the program exited because of what it was given, so new pods
	// do not get it.
	VerdictWithheld Verdict = "withheld"
	// VerdictSuspected: as VerdictWithheld, but the rotator only tells; new pods get it.
	VerdictSuspected Verdict = "suspected"
	// VerdictCleared: the program exited without it too, so new pods get it again.
	VerdictCleared Verdict = "cleared"
)

// Reasons of condition ConditionFlags.
const (
	// FlagsWithheld: False; at least one attempt is withheld.
	FlagsWithheld = "FlagsWithheld"
	// FlagsSuspected: False; none is withheld, and one would be if the rotator did not
	// only tell.
	FlagsSuspected = "FlagsSuspected"
	// FlagsKept: True; all attempts that were under suspicion are cleared.
	FlagsKept = "FlagsKept"
)

// AttemptFact is what the rotator found out about one attempt.
type AttemptFact struct {
	Attempt   string // AttemptOf
	Verdict   Verdict
	Workload  string // for people, such as Deployment/web
	Container string
	Since     time.Time // in whole seconds
	// OnTrial: the program did not name what it was given when it exited. Only without
	// the attempt it shows whether that was the cause.
	OnTrial bool
}

// FlagsFacts is what condition ConditionFlags, which the rotator writes, tells the webhook.
type FlagsFacts []AttemptFact

// MaxAttempts is how many facts a condition holds.
const MaxAttempts = 32

// Message returns the message of a condition that says text and holds the facts:
//
//	TEXT (withheld ATTEMPT KIND/NAME/CONTAINER since TIME, …)
//
// TIME is followed by "on trial" where that holds.
func (f FlagsFacts) Message(text string) string {
	facts := make([]string, len(f))
	for i, a := range f {
		facts[i] = string(a.Verdict) + " " + a.Attempt + " " + a.Workload + "/" + a.Container + sinceFact + a.Since.UTC().Format(time.RFC3339)
		if a.OnTrial {
			facts[i] += onTrialFact
		}
	}
	return text + inParentheses(facts)
}

const onTrialFact = " on trial"

// FlagsOf returns the facts of the Service's condition ConditionFlags.
func FlagsOf(svc *corev1.Service) FlagsFacts {
	c := Condition(svc, ConditionFlags)
	if c == nil {
		return nil
	}
	var out FlagsFacts
	for _, fact := range lastParentheses(c.Message) {
		if a, ok := parseAttempt(fact); ok && len(out) < MaxAttempts {
			out = append(out, a)
		}
	}
	return out
}

func parseAttempt(fact string) (AttemptFact, bool) {
	fact, onTrial := strings.CutSuffix(fact, onTrialFact)
	rest, at, ok := strings.Cut(fact, sinceFact)
	fields := strings.Split(rest, " ")
	since, err := time.Parse(time.RFC3339, at)
	if !ok || err != nil || len(fields) != 3 || !isAttempt(fields[1]) {
		return AttemptFact{}, false
	}
	verdict := Verdict(fields[0])
	slash := strings.LastIndexByte(fields[2], '/')
	if slash < 0 || !slices.Contains([]Verdict{VerdictWithheld, VerdictSuspected, VerdictCleared}, verdict) {
		return AttemptFact{}, false
	}
	return AttemptFact{
		Attempt: fields[1], Verdict: verdict, Since: since, OnTrial: onTrial,
		Workload: fields[2][:slash], Container: fields[2][slash+1:],
	}, true
}

// Established returns those of the facts that hold for every pod of the namespace: the
// program itself named what it was given, so it does not matter which Service is asked.
func (f FlagsFacts) Established() FlagsFacts {
	return slices.DeleteFunc(slices.Clone(f), func(a AttemptFact) bool { return a.Verdict != VerdictWithheld || a.OnTrial })
}

// Withholds reports whether the webhook leaves the attempt out.
func (f FlagsFacts) Withholds(attempt string) bool {
	return slices.ContainsFunc(f, func(a AttemptFact) bool { return a.Attempt == attempt && a.Verdict == VerdictWithheld })
}
