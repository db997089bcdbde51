package signer

import (
	"errors"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Reason says in one word why a certificate is issued, or why it is not. It is
// the value of a condition's reason, of an event's and of a metric's label.
type Reason string

// Why a certificate is issued.
const (
	reasonFirst        Reason = "FirstIssue"
	reasonMissing      Reason = "SecretMissing"
	reasonEmpty        Reason = "SecretEmpty"
	reasonKeyMissing   Reason = "KeyMissing"
	reasonGarbage      Reason = "Garbage"
	reasonMismatch     Reason = "KeyMismatch"
	reasonOtherCA      Reason = "SignedByOtherCA"
	reasonWrongUsage   Reason = "WrongUsage"
	reasonChainChanged Reason = "ChainChanged"
	reasonNames        Reason = "NamesChanged"
	reasonAlgorithm    Reason = "KeyAlgorithmChanged"
	reasonDuration     Reason = "DurationChanged"
	reasonRequested    Reason = "RenewRequested"
	reasonDue          Reason = "RenewalDue"
	reasonExpired      Reason = "Expired"
	reasonNotYetValid  Reason = "NotYetValid"
	reasonSucceeded    Reason = "CASucceeded"
)

// Reasons of the Ready condition beside those of a CA that cannot sign.
const (
	reasonIssued       Reason = "Issued"                  // True
	reasonRetained     Reason = api.ReasonRetained        // True: no longer requested, and kept
	reasonPodKeys      Reason = api.ReasonPodKeys         // True: the Service's pods make their keys
	reasonInvalid      Reason = "InvalidAnnotation"       // False: what is requested is not allowed
	reasonTooLarge     Reason = api.ReasonTooLarge        // False: more would have to be remembered of the Service than is allowed
	reasonWaiting      Reason = api.ReasonWaitingForTrust // False: some names, or all, that not all clients accept yet
	reasonConflict     Reason = "SecretConflict"          // False: the Secret is not managed by this signer
	reasonNotOptedIn   Reason = api.ReasonNotOptedIn      // False: the namespace lacks the label, and nothing shows that the Service had a certificate while it had it
	reasonTerminating  Reason = "SecretTerminating"       // False: the Secret was deleted, and finalizers hold it
	ReasonRefused      Reason = "SigningRefused"          // False: what the CA signed is not what was requested
	ReasonSignFailed   Reason = "SigningFailed"           // False
	ReasonWriteRefused Reason = "WriteRefused"            // False: the API server does not take the Secret
	ReasonWriteFailed  Reason = "WriteFailed"             // False: the API server was not reached
	reasonRateLimited  Reason = "RateLimited"             // False: too many certificates were issued in a short time
	reasonUnavailable  Reason = "CAUnavailable"           // False: a CA that does not say why
	ReasonClockSkew    Reason = "ClockSkew"               // False: this clock and the API server's differ
	reasonPending      Reason = "CAPending"               // never written: the CA is being read
)

// Reasons of the Ready condition under a remote CA.
const (
	ReasonUnreachable Reason = "CAUnreachable"   // False: no server answers
	ReasonCARefused   Reason = "CARefused"       // False: a server refuses to sign
	ReasonCAAnswer    Reason = "CAAnswerInvalid" // False: a server's answer is not a certificate
	ReasonCAChanged   Reason = "CAChanged"       // False: a server signs with another CA than the one that clients trust
	ReasonCAUntrusted Reason = "CAUntrusted"     // False: the CA's certificate leads to no root that clients could be given
)

// ReasonOf returns the reason that an error gives by a method Reason() string, or
// otherwise if it gives none.
func ReasonOf(err error, otherwise Reason) Reason {
	var reasoned interface{ Reason() string }
	if errors.As(err, &reasoned) {
		return Reason(reasoned.Reason())
	}
	return otherwise
}

// CARetry is how long a Secret or a request waits for a CA that cannot sign before it is looked at
// again without a change: correcting the clock triggers no event.
const CARetry = 30 * time.Second
