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

// maxGenerationText bounds the Why of a record, in characters.
const maxGenerationText = 200

// Origins of a generation, the values of CAGenerationRecord.Origin.
const (
	OriginOwn      = "own"      // made by servingcert
	OriginImported = "imported" // from Secret CAImportName
	OriginRemote   = "remote"   // a remote CA holds the key
)

// CAGenerationRecord is the public part of a generation of the CA. Times are in whole
// seconds, UTC, and zero if the event has not happened or is not known.
type CAGenerationRecord struct {
	Number int    `json:"number"`
	Origin string `json:"origin"`
	// Root is the fingerprint of the certificate that clients trust: SHA-256 of its DER,
	// in hex.
	Root string `json:"root"`
	Why  string `json:"why,omitempty"` // why it was made, for people

	MadeAt     time.Time `json:"madeAt,omitzero"`     // since when its root is published
	TrustedAt  time.Time `json:"trustedAt,omitzero"`  // since when every target is known to hold its root
	SignsSince time.Time `json:"signsSince,omitzero"` // zero: it has not signed
	UsedUntil  time.Time `json:"usedUntil,omitzero"`  // the latest NotAfter of its leaves
	NotAfter   time.Time `json:"notAfter,omitzero"`   // the earliest NotAfter of its own certificates

	// Retired: its root is no longer published. RetiredAt is when that was first observed;
	// zero if it is not known.
	Retired   bool      `json:"retired,omitempty"`
	RetiredAt time.Time `json:"retiredAt,omitzero"`
}

// Same reports whether two records describe the same generation. The number alone is not
// enough: the number of an abandoned generation is used again.
func (r CAGenerationRecord) Same(as CAGenerationRecord) bool {
	return r.Number == as.Number && r.Root == as.Root
}

// NewCAGenerations returns the newest MaxCAGenerations records as they are stored: with
// shortened texts, and times in whole seconds.
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

// parseGenerations reads what formatGenerations returns. It skips lines that are not
// records, and keeps the newest if there are too many: anyone who may write ConfigMaps
// can change them. Fields of newer versions are ignored.
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
