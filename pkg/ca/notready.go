package ca

// NotReadyError says why there is no CA to sign with.
type NotReadyError struct {
	reason  string
	message string
}

// Reason returns one of the constants ReasonPending, ReasonLost …: short and
// stable, for conditions, events and metrics.
func (e *NotReadyError) Reason() string { return e.reason }

// Message says for a person what is wrong and what to do.
func (e *NotReadyError) Message() string { return e.message }

func (e *NotReadyError) Error() string { return e.reason + ": " + e.message }
