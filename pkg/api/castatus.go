package api

import (
	"strconv"
	"strings"
	"time"
)

// Keys of ConfigMap CAStatusName, which the signer writes, in addition to BundleKey.
// Keys without a value are absent. [CAStatus] is all of them.
const (
	CAGeneration = "generation"  // the number of the generation that signs
	CANewest     = "newest-seen" // the number of a newer generation that is not in the CA Secret
	CAPhase      = "phase"       // the phase of a succession
	CASince      = "since"       // when the phase began, RFC 3339
	CANotAfter   = "not-after"   // when the generation that signs expires, RFC 3339
	CABundleHash = "bundle-hash" // SHA-256 of BundleKey in hex, like TrustBundleHash
	CAProblem    = "problem"     // why nothing is signed: REASON: message
	CAWarning    = "warning"     // problems that do not stop signing: REASON: message, one per line

	// CAOwnBundle is the bundle for webhooks of servingcert's own namespace, in PEM. It
	// exists only while it also has the root of an interim CA.
	CAOwnBundle     = "own-ca.crt"
	CAOwnBundleHash = "own-bundle-hash" // as CABundleHash

	CANextGeneration = "next-generation" // in phase Wait: the number of the generation that signs next
	CAWaitingFor     = "waiting-for"     // what the phase waits for, for people
	CAWhy            = "why"             // the reason for the succession, for people
	// CALeaves is the number of certificates in use in phases Reissue and Retire, and
	// CAReplaced the number of those that the signing generation signed. They are updated
	// every few seconds.
	CAReplaced = "certificates-replaced"
	CALeaves   = "certificates"
	// CARotation is the last request that was answered, as MODE:REASON, and
	// CARotationOutcome its outcome.
	CARotation        = "rotation"
	CARotationOutcome = "rotation-outcome"
	// CAExtraRoots are the certificates in BundleKey that are from ConfigMap ExtraRootsName, one
	// per line: the ConfigMap's key, a space, and the certificate's SHA-256 in hex.
	CAExtraRoots = "extra-roots"
	// CAImported is the SHA-256 in hex of the last CA that was imported from Secret CAImportName.
	CAImported = "imported"
)

// Phases of the CA, the values of CAPhase.
const (
	PhaseStable  = "Stable"  // one generation signs, and nothing needs older ones
	PhaseWait    = "Wait"    // a new generation is published but not yet trusted everywhere
	PhaseReissue = "Reissue" // it signs, and older certificates are being replaced
	PhaseRetire  = "Retire"  // older generations stay trusted until their last certificate expires
)

// Reasons of CAProblem: why the CA cannot sign.
const (
	// CAPending: the process does not lead, or has not read the CA yet.
	CAPending = "CAPending"
	// CALost: the Secret is missing, but there was a CA. A new CA would break every
	// client that trusts the old one.
	CALost = "CALost"
	// CACorrupt: the Secret exists but does not hold a CA.
	CACorrupt = "CACorrupt"
	// CANewerVersion: a newer servingcert wrote the Secret, with content that this
	// version cannot read.
	CANewerVersion = "CANewerVersion"
	// CANotYetValid: the clock is behind the CA's NotBefore.
	CANotYetValid = "CANotYetValid"
	// CAExpired: the clock is past the CA's NotAfter.
	CAExpired = "CAExpired"
	// CAUnreachable: the CA is remote and has not been reached yet.
	CAUnreachable = "CAUnreachable"
	// CAWaitingForTrust: the CA is no longer remote or was replaced, and not all clients
	// trust the new one yet.
	CAWaitingForTrust = "WaitingForTrust"
	// CAClockSkew: the signer's clock and the API server's differ.
	CAClockSkew = ReasonClockSkew
	// CAReconcileFailed: the signer has failed to read or write the CA for a minute or longer. It
	// is a problem if there is no CA to sign with, and otherwise a warning.
	CAReconcileFailed = "CAReconcileFailed"
)

// Reasons of CAWarning: problems that do not stop signing.
const (
	// CAConstraintsChanged: the flags permit other names than the CA.
	CAConstraintsChanged = "CAConstraintsChanged"
	// CAEnding: an imported CA expires soon. It is replaced only on request.
	CAEnding = "CAEnding"
	// CAImportInvalid: the CA to import cannot be used.
	CAImportInvalid = "CAImportInvalid"
	// CAExtraRootsInvalid: the additional roots for clients are not valid. The previous
	// ones are kept.
	CAExtraRootsInvalid = "CAExtraRootsInvalid"
	// CARemoteInvalid: the remote CA does not answer, or its answer cannot be used.
	CARemoteInvalid = "CARemoteInvalid"
	// RotationInvalid: the annotations that request a rotation are not valid.
	RotationInvalid = "RotationInvalid"
	// SuccessionWaits: a succession is due, but clients that hold only the oldest root
	// could not verify the new generation.
	SuccessionWaits = "SuccessionWaits"
	// SuccessionHeldUp: targets in some namespaces refuse the root of the next
	// generation, which signs without them after a time.
	SuccessionHeldUp = "SuccessionHeldUp"
	// CARestored: the Secret is older than the status.
	CARestored = "CARestored"
)

// CAProblems lists the reasons of CAProblem.
func CAProblems() []string {
	return []string{CAPending, CALost, CACorrupt, CANewerVersion, CANotYetValid, CAExpired, CAUnreachable, CAWaitingForTrust, CAClockSkew, CAReconcileFailed}
}

// CAWarnings lists the reasons of CAWarning.
func CAWarnings() []string {
	return []string{CAConstraintsChanged, CAEnding, CAImportInvalid, CAExtraRootsInvalid, CARemoteInvalid, RotationInvalid, SuccessionWaits, SuccessionHeldUp, CARestored, CAReconcileFailed}
}

// CAPhases lists the values of CAPhase.
func CAPhases() []string { return []string{PhaseStable, PhaseWait, PhaseReissue, PhaseRetire} }

// CAStatus is the content of ConfigMap CAStatusName. Fields are zero if the key is
// absent.
type CAStatus struct {
	Bundle     string // what clients must trust, PEM
	BundleHash string
	// OwnBundle is the bundle for webhooks of servingcert's own namespace, if it differs.
	OwnBundle, OwnBundleHash string
	// Generation signs. NextGeneration signs next, in phase PhaseWait. NewestSeen is the
	// number of an earlier generation that is higher than any in the CA Secret.
	Generation, NextGeneration, NewestSeen int
	Phase                                  string
	Since                                  time.Time // when the phase began
	NotAfter                               time.Time // when Generation expires
	Why, WaitingFor                        string    // for people
	// Replaced of Certificates in use are signed by Generation; nil: not counted.
	Replaced, Certificates *int
	Rotation               RotateRequest // the last one that was answered
	RotationOutcome        RotateOutcome
	Problem                CAMessage   // why nothing is signed; zero if the CA can sign
	Warnings               []CAMessage // problems that do not stop signing
	// Generations are the newest current and former generations, oldest first.
	Generations []CAGenerationRecord
	ExtraRoots  []string // the lines of CAExtraRoots, sorted
	Imported    string   // the fingerprint of the last CA that was imported
}

// CAMessage is a problem or a warning of the CA.
type CAMessage struct {
	Reason  string // one of the constants above
	Message string // what is wrong and what to do, for people
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

// maxGeneration bounds the number of a generation in a status, which anyone who may
// write ConfigMaps can change: one per minute for two years.
const maxGeneration = 1_000_000

// ParseCAStatus reads the data of ConfigMap CAStatusName. Malformed values count as
// absent.
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
		Imported:        data[CAImported],
	}
	if text := data[CAExtraRoots]; text != "" {
		s.ExtraRoots = strings.Split(text, "\n")
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
	set(CAExtraRoots, strings.Join(s.ExtraRoots, "\n"))
	set(CAImported, s.Imported)
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
