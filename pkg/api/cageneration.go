package api

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// CAGenerations is the key of ConfigMap CAStatusName with the history of the CA: a
// [CAGenerationRecord] in JSON in each line, the oldest first.
const CAGenerations = "generations"

// MaxCAGenerations bounds the history.
const MaxCAGenerations = 24

// maxGenerationText bounds what a record says for people, in characters.
const maxGenerationText = 200

// Origins of a generation, the values of CAGenerationRecord.Origin.
const (
	OriginOwn      = "own"      // made by servingcert
	OriginImported = "imported" // from Secret CAImportName
	OriginRemote   = "remote"   // kept by a remote CA
)

// CAGenerationRecord is what anyone may know of a generation of the CA. Times are in
// whole seconds, UTC, and zero for what has not happened or is not known.
type CAGenerationRecord struct {
	Number int    `json:"number"`
	Origin string `json:"origin"`
	// Root is the fingerprint of the certificate that clients trust: SHA-256 of its DER,
	// in hex.
	Root string `json:"root"`
	Why  string `json:"why,omitempty"` // it was made, for people

	MadeAt     time.Time `json:"madeAt,omitzero"`     // its root is published since then
	TrustedAt  time.Time `json:"trustedAt,omitzero"`  // every target was seen to hold its root
	SignsSince time.Time `json:"signsSince,omitzero"` // zero: it has not signed
	UsedUntil  time.Time `json:"usedUntil,omitzero"`  // no certificate that it signed lives longer
	NotAfter   time.Time `json:"notAfter,omitzero"`   // its own certificates end

	// Retired: its root is no longer published. RetiredAt is when that was first seen;
	// zero if nobody looked.
	Retired   bool      `json:"retired,omitempty"`
	RetiredAt time.Time `json:"retiredAt,omitzero"`
}

// Same reports whether two records are about the same generation. A number alone does
// not say so: one that was abandoned is used again.
func (r CAGenerationRecord) Same(as CAGenerationRecord) bool {
	return r.Number == as.Number && r.Root == as.Root
}

// NewCAGenerations returns a history of at most as many records as are kept, the newest,
// as it is stored: with texts that are not too long, and times in whole seconds.
func NewCAGenerations(records []CAGenerationRecord) []CAGenerationRecord {
	records = slices.Clone(records[max(0, len(records)-MaxCAGenerations):])
	for i := range records {
		r := &records[i]
		r.Why = Shorten(r.Why, maxGenerationText)
		for _, t := range r.times() {
			if !t.IsZero() {
				*t = t.UTC().Truncate(time.Second)
			}
		}
	}
	return records
}

func (r *CAGenerationRecord) times() []*time.Time {
	return []*time.Time{&r.MadeAt, &r.TrustedAt, &r.SignsSince, &r.UsedUntil, &r.NotAfter, &r.RetiredAt}
}

// formatGenerations returns the value of CAGenerations; "" for no history.
func formatGenerations(records []CAGenerationRecord) string {
	lines := make([]string, 0, len(records))
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			continue // a year that RFC 3339 cannot write
		}
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n")
}

// parseGenerations reads what formatGenerations returns. A line that is not a record is
// left out, and of too many the newest are kept: anyone who may write ConfigMaps can
// change them. Fields that a newer version added are ignored.
func parseGenerations(text string) []CAGenerationRecord {
	var records []CAGenerationRecord
	for line := range strings.SplitSeq(text, "\n") {
		var r CAGenerationRecord
		if json.Unmarshal([]byte(line), &r) == nil && r.valid() {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil
	}
	return NewCAGenerations(records)
}

func (r CAGenerationRecord) valid() bool {
	return r.Number >= 1 && r.Number <= maxGeneration && IsFingerprint(r.Root) &&
		slices.Contains([]string{OriginOwn, OriginImported, OriginRemote}, r.Origin)
}
