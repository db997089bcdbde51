package api

import (
	"strconv"
	"strings"
	"time"
)

// Keys of ConfigMap CAStatusName beside BundleKey, which the signer writes. A key
// that has nothing to say is absent. [CAStatus] is all of them.
const (
	CAGeneration = "generation"  // the number of the generation that signs
	CANewest     = "newest-seen" // a higher number of a generation than the CA Secret knows
	CAPhase      = "phase"       // how far a succession is
	CASince      = "since"       // when the phase began, RFC 3339
	CANotAfter   = "not-after"   // when the generation that signs expires, RFC 3339
	CABundleHash = "bundle-hash" // SHA-256 of BundleKey in hex, as TrustBundleHash names it
	CAProblem    = "problem"     // why nothing is signed: REASON: message
	CAWarning    = "warning"     // what does not stop signing: REASON: message, one per line

	// CAOwnBundle is the bundle for webhooks of servingcert's own namespace, while it
	// differs from the one for all: it holds the root of an interim CA too, PEM.
	CAOwnBundle     = "own-ca.crt"
	CAOwnBundleHash = "own-bundle-hash" // as CABundleHash

	CANextGeneration = "next-generation" // in phase Wait: the number of the one that is to sign
	CAWaitingFor     = "waiting-for"     // what the phase waits for, for people
	CAWhy            = "why"             // what the succession is for, for people
	// CAReplaced and CALeaves, in phases Reissue and Retire: how many of the
	// certificates in use the generation that signs has signed, and how many there
	// are. Brought up to date every few seconds.
	CAReplaced = "certificates-replaced"
	CALeaves   = "certificates"
	// CARotation is the last request that was answered, as MODE:REASON, and
	// CARotationOutcome what became of it.
	CARotation        = "rotation"
	CARotationOutcome = "rotation-outcome"
)

// Phases of the CA, the values of CAPhase.
const (
	PhaseStable  = "Stable"  // one generation, or older ones that nothing needs
	PhaseWait    = "Wait"    // a new generation is published and not yet trusted everywhere
	PhaseReissue = "Reissue" // it signs, and older certificates are being replaced
	PhaseRetire  = "Retire"  // older generations stay trusted until their last certificate ends
)

// Reasons of CAProblem: why there is no CA to sign with.
const (
	// CAPending: the process does not lead, or has not read the CA yet.
	CAPending = "CAPending"
	// CALost: the Secret is missing although something shows that there was a CA.
	// A new one would break every client that trusts the old.
	CALost = "CALost"
	// CACorrupt: the Secret is there and does not hold a CA.
	CACorrupt = "CACorrupt"
	// CANewerVersion: the Secret was written by a newer servingcert, which kept
	// something there that this one does not know.
	CANewerVersion = "CANewerVersion"
	// CANotYetValid: the clock is behind the CA's NotBefore.
	CANotYetValid = "CANotYetValid"
	// CAExpired: the clock is past the CA's NotAfter.
	CAExpired = "CAExpired"
	// CAUnreachable: the CA is remote and was never reached.
	CAUnreachable = "CAUnreachable"
	// CAWaitingForTrust: the CA was remote and is not any more, and clients do not
	// all trust the next one yet.
	CAWaitingForTrust = "WaitingForTrust"
)

// Reasons of CAWarning: what does not stop signing.
const (
	// CAConstraintsChanged: the flags permit other names than the CA.
	CAConstraintsChanged = "CAConstraintsChanged"
	// CAEnding: an imported CA ends soon. It is not replaced unless asked for.
	CAEnding = "CAEnding"
	// CAImportInvalid: what is to be imported cannot be used as a CA.
	CAImportInvalid = "CAImportInvalid"
	// CAExtraRootsInvalid: the roots that clients are to trust beside the CA's cannot be
	// read. Those that were read before stay.
	CAExtraRootsInvalid = "CAExtraRootsInvalid"
	// CARemoteInvalid: the remote CA does not answer, or its answer cannot be used.
	CARemoteInvalid = "CARemoteInvalid"
	// RotationInvalid: the annotations that ask for a rotation are wrong.
	RotationInvalid = "RotationInvalid"
	// SuccessionWaits: a succession is due, and clients that hold only the oldest
	// root could not verify the new generation.
	SuccessionWaits = "SuccessionWaits"
	// SuccessionHeldUp: targets of some namespaces refuse the root of the next
	// generation, which signs without them after a time.
	SuccessionHeldUp = "SuccessionHeldUp"
	// CARestored: the Secret is older than the status that was made from it.
	CARestored = "CARestored"
)

// CAProblems lists the reasons of CAProblem.
func CAProblems() []string {
	return []string{CAPending, CALost, CACorrupt, CANewerVersion, CANotYetValid, CAExpired, CAUnreachable, CAWaitingForTrust}
}

// CAWarnings lists the reasons of CAWarning.
func CAWarnings() []string {
	return []string{CAConstraintsChanged, CAEnding, CAImportInvalid, CAExtraRootsInvalid, CARemoteInvalid, RotationInvalid, SuccessionWaits, SuccessionHeldUp, CARestored}
}

// CAPhases lists the values of CAPhase.
func CAPhases() []string { return []string{PhaseStable, PhaseWait, PhaseReissue, PhaseRetire} }

// CAStatus is what ConfigMap CAStatusName says. Its fields are zero where the
// ConfigMap says nothing.
type CAStatus struct {
	Bundle     string // what clients must trust, PEM
	BundleHash string
	// OwnBundle is the bundle for webhooks of servingcert's own namespace, if that is
	// another.
	OwnBundle, OwnBundleHash string
	// Generation signs. NextGeneration is to, in phase PhaseWait. NewestSeen is a
	// generation that there was, with a higher number than any that the CA Secret
	// knows.
	Generation, NextGeneration, NewestSeen int
	Phase                                  string
	Since                                  time.Time // when the phase began
	NotAfter                               time.Time // when Generation expires
	Why, WaitingFor                        string    // for people
	// Replaced of Certificates in use are signed by Generation; nil: not counted.
	Replaced, Certificates *int
	Rotation               RotateRequest // the last one that was answered
	RotationOutcome        RotateOutcome
	Problem                CAMessage   // why nothing is signed; zero: it is
	Warnings               []CAMessage // what does not stop signing
	// Generations are the newest generations that there are and were, oldest first.
	Generations []CAGenerationRecord
}

// CAMessage is a problem or a warning of the CA.
type CAMessage struct {
	Reason  string // one of the constants above
	Message string // for people: what is wrong and what to do
}

// String returns "REASON: message", and "" for the zero CAMessage.
func (m CAMessage) String() string {
	if m == (CAMessage{}) {
		return ""
	}
	return m.Reason + ": " + m.Message
}

// parseCAMessage reads what [CAMessage.String] returns. Text without a reason is
// all message.
func parseCAMessage(text string) CAMessage {
	reason, message, ok := strings.Cut(text, ": ")
	if !ok || strings.ContainsAny(reason, " \n") {
		return CAMessage{Message: text}
	}
	return CAMessage{reason, message}
}

// maxGeneration bounds the number of a generation in a status, which anyone who
// may write ConfigMaps can change: one a minute for two years.
const maxGeneration = 1_000_000

// ParseCAStatus reads the data of ConfigMap CAStatusName. What is malformed is
// taken for absent.
func ParseCAStatus(data map[string]string) CAStatus {
	s := CAStatus{
		Bundle:          data[BundleKey],
		BundleHash:      data[CABundleHash],
		OwnBundle:       data[CAOwnBundle],
		OwnBundleHash:   data[CAOwnBundleHash],
		Generation:      parseGeneration(data[CAGeneration]),
		NextGeneration:  parseGeneration(data[CANextGeneration]),
		NewestSeen:      parseGeneration(data[CANewest]),
		Phase:           data[CAPhase],
		Since:           parseTime(data[CASince]),
		NotAfter:        parseTime(data[CANotAfter]),
		Why:             data[CAWhy],
		WaitingFor:      data[CAWaitingFor],
		Replaced:        parseCount(data[CAReplaced]),
		Certificates:    parseCount(data[CALeaves]),
		Rotation:        parseRotation(data[CARotation]),
		RotationOutcome: parseRotateOutcome(data[CARotationOutcome]),
		Problem:         parseCAMessage(data[CAProblem]),
		Generations:     parseGenerations(data[CAGenerations]),
	}
	if text := data[CAWarning]; text != "" {
		for line := range strings.SplitSeq(text, "\n") {
			s.Warnings = append(s.Warnings, parseCAMessage(line))
		}
	}
	return s
}

// Data returns the status as the data of ConfigMap CAStatusName. Equal statuses
// give equal data.
func (s CAStatus) Data() map[string]string {
	data := map[string]string{}
	set := func(key, value string) {
		if value != "" {
			data[key] = value
		}
	}
	set(BundleKey, s.Bundle)
	set(CABundleHash, s.BundleHash)
	set(CAOwnBundle, s.OwnBundle)
	set(CAOwnBundleHash, s.OwnBundleHash)
	set(CAGeneration, formatGeneration(s.Generation))
	set(CANextGeneration, formatGeneration(s.NextGeneration))
	set(CANewest, formatGeneration(s.NewestSeen))
	set(CAPhase, s.Phase)
	set(CASince, formatTime(s.Since))
	set(CANotAfter, formatTime(s.NotAfter))
	set(CAWhy, s.Why)
	set(CAWaitingFor, s.WaitingFor)
	set(CAReplaced, formatCount(s.Replaced))
	set(CALeaves, formatCount(s.Certificates))
	set(CARotation, s.Rotation.String())
	set(CARotationOutcome, s.RotationOutcome.String())
	set(CAProblem, s.Problem.String())
	set(CAGenerations, formatGenerations(s.Generations))
	var warnings []string
	for _, w := range s.Warnings {
		warnings = append(warnings, strings.ReplaceAll(w.String(), "\n", " ")) // one per line
	}
	set(CAWarning, strings.Join(warnings, "\n"))
	return data
}

func parseGeneration(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxGeneration {
		return 0
	}
	return n
}

func formatGeneration(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func parseCount(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
}

func formatCount(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
