package ca

import "github.com/servingcert/servingcert/pkg/api"

// NotReadyError reports why the CA cannot sign.
type NotReadyError struct{ Problem api.CAMessage }

// Reason returns one of api.CAProblems: short and stable, for conditions, events
// and metrics.
func (e *NotReadyError) Reason() string { return e.Problem.Reason }

// Message returns what is wrong and what to do, for people.
func (e *NotReadyError) Message() string { return e.Problem.Message }

func (e *NotReadyError) Error() string { return e.Problem.String() }
