package signer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Reason is why a certificate is issued, or why not. It is the reason of conditions and events,
// and a label of metrics.
type Reason string

// Reasons for which a certificate is issued.
const (
	reasonFirst        Reason = "FirstIssue"
	reasonMissing      Reason = "SecretMissing" // False: of another issuer, which has not made it
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

// Reasons of the Ready condition, besides those of a CA that cannot sign and of issue.Reason.
const (
	reasonIssued       Reason = "Issued"                  // True
	reasonRetained     Reason = api.ReasonRetained        // True: no longer requested, and kept
	reasonPodKeys      Reason = api.ReasonPodKeys         // True: the Service's pods make their keys
	reasonExternal     Reason = api.ReasonExternal        // True: of another issuer
	reasonOverdue      Reason = api.ReasonRenewalOverdue  // True: of another issuer, which should have renewed it
	reasonNamesMissing Reason = "NamesMissing"            // False: of another issuer, without a name that clients use
	reasonInvalid      Reason = api.ReasonInvalid         // False: what is requested is not allowed
	reasonTooLarge     Reason = api.ReasonTooLarge        // False: the Service is larger than the signer can process
	reasonWaiting      Reason = api.ReasonWaitingForTrust // False: not all clients accept some or all of the names yet
	reasonConflict     Reason = "SecretConflict"          // False: the Secret is not managed by this signer
	reasonNotOptedIn   Reason = api.ReasonNotOptedIn      // False: the namespace lacks the label, and there is no proof that the Service had a certificate while it had it
	reasonTerminating  Reason = api.ReasonTerminating     // False: the Secret was deleted, and finalizers hold it
	ReasonSignFailed   Reason = "SigningFailed"           // False
	ReasonWriteRefused Reason = "WriteRefused"            // False: the API server does not accept the Secret
	ReasonWriteFailed  Reason = "WriteFailed"             // False: the API server was not reached
	ReasonRateLimited  Reason = "RateLimited"             // False: too many certificates were issued in a short time
	reasonUnavailable  Reason = "CAUnavailable"           // False: the CA is not available, and gives no reason
	ReasonClockSkew    Reason = api.ReasonClockSkew       // False: this clock and the API server's differ
	reasonPending      Reason = "CAPending"               // never written: the CA is being read
)

// ReasonOf returns the reason of an error that has a method Reason() string, or otherwise if
// it has none.
func ReasonOf(err error, otherwise Reason) Reason {
	var reasoned interface{ Reason() string }
	if errors.As(err, &reasoned) {
		return Reason(reasoned.Reason())
	}
	return otherwise
}

// CARetry is the interval of reconciles while the CA cannot sign: correcting the clock triggers no
// event.
const CARetry = 30 * time.Second

// Problem is what the conditions of the Services that share a Secret report. Zero: none.
type Problem struct {
	Reason  Reason
	Message string
	// Temporary: a retry may succeed. A valid certificate stays in use, and the conditions of its
	// Services are left unchanged.
	Temporary bool
}

// conflict returns the Problem of a Secret that is not ours.
func conflict(s Situation, why string) Problem {
	return Problem{
		Reason:  reasonConflict,
		Message: fmt.Sprintf("Secret %q exists and is not managed by this signer: %s. It is left unchanged: set annotation %s: %s to keep its issuer, request another name, or delete it", s.Key.Name, why, api.AnnotationIssuer, api.IssuerExternal),
	}
}

// blocked returns the Problem of a CA that cannot sign.
func blocked(err error) Problem {
	return Problem{Reason: ReasonOf(err, reasonUnavailable), Message: err.Error(), Temporary: true}
}

// Pending reports whether the CA has not been read yet.
func Pending(err error) bool { return err != nil && ReasonOf(err, "") == reasonPending }

// notOptedIn returns the Problem of a Secret that no opted-in Service requests, and that does not
// prove an earlier opt-in.
func notOptedIn(s Situation) Problem {
	return Problem{Reason: reasonNotOptedIn, Message: s.labelText("does not have") + ", and the Secret does not hold a key and a certificate of this CA with names of the Service: nothing is issued until the namespace has the label"}
}

// maxNamesShown is the most names in a message.
const maxNamesShown = 4

// quoted returns the first names in order, and how many more of all there are: "a", "b" and 3 more.
func quoted(names []string, all int) string {
	names = slices.Clone(names)
	slices.Sort(names)
	names = names[:min(len(names), maxNamesShown)]
	for i, name := range names {
		names[i] = strconv.Quote(name)
	}
	return api.ListedOf(names, all)
}

// A Secret that was deleted and has finalizers stays until they are removed. It can be read and
// mounted, but is no longer written, since a new certificate would be deleted with it. Only the
// condition reports that its certificate expires.

// terminatingGrace is how long a Secret may be terminating before the condition reports it. The
// garbage collector, or a working controller, removes its finalizer in that time.
const terminatingGrace = 10 * time.Second

// terminating returns the Problem of a Secret that is being deleted.
func terminating(f *SecretFacts) Problem {
	more := ""
	if f.moreFinalizers > 0 {
		more = fmt.Sprintf(" and %d more", f.moreFinalizers)
	}
	return Problem{
		Reason: reasonTerminating,
		Message: fmt.Sprintf("it was deleted at %s and still exists because of its finalizers %q%s; its certificate is not renewed. Have the controllers that added them finish, or remove them; if a Service still requests the Secret, it is then created again",
			f.DeletionTimestamp.UTC().Format(time.RFC3339), f.Finalizers, more),
	}
}
