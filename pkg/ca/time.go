package ca

import (
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// clockMargin is by how much the clocks of clients and of two signers may differ:
// as much as certificates are backdated by.
const clockMargin = pki.Backdate

// seconds returns t in the precision in which times are stored.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// formatTime returns t as messages show it.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
