package ca

import (
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// clockMargin is the allowed difference between the clocks of clients and signers:
// the time by which certificates are backdated.
const clockMargin = pki.Backdate

// seconds returns t in the precision of stored times.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// formatTime returns t in the format of messages.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
