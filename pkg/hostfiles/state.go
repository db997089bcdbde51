package hostfiles

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// State is the persisted state of a store. It is kept on the host, so that hostsync resumes after a crash.
type State struct {
	Version int `json:"version"`
	// Switch is the last one that was begun. It is saved before the switch itself.
	Switch *Switch `json:"switch,omitempty"`
	// Avoid is a content that was rolled back.
	Avoid *Avoid `json:"avoid,omitempty"`
	// Originals are the files and directories that the store replaced.
	Originals []Original `json:"originals,omitempty"`
	// Owned are the paths outside the store's directory that it has written.
	Owned []string `json:"owned,omitempty"`
}

// Switch is the progress of one switch of a store.
type Switch struct {
	To   string    `json:"to"`   // Content.ID
	Leaf string    `json:"leaf"` // fingerprint
	At   time.Time `json:"at"`
	// Back is the reason of a rollback; "" for any other switch.
	Back string `json:"back,omitempty"`
	// Before is the fingerprint of the certificate that the address served before the switch, or "".
	Before string `json:"before,omitempty"`
	// Acted is true once the action has succeeded, or if the store has none.
	Acted    bool      `json:"acted"`
	Attempts int       `json:"attempts,omitempty"`
	ActedAt  time.Time `json:"actedAt,omitzero"` // when the last attempt ended
	Failure  string    `json:"failure,omitempty"`
	// Proven is true once the address has served the leaf, or if the store has no check.
	Proven bool `json:"proven"`
	// Seen is the observation at SeenAt, the last one. Verdict is the first one after the deadline that
	// follows the last attempt.
	Seen    Seen      `json:"seen,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	SeenAt  time.Time `json:"seenAt,omitzero"`
	Verdict Seen      `json:"verdict,omitempty"`
}

// Avoid is a content that is not installed before Until, because the program did not serve it.
type Avoid struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
	Why   string    `json:"why"`
}

// Original is a file, directory or link that the store replaced.
type Original struct {
	Path string `json:"path"` // absolute
	Kept string `json:"kept"` // its name since then, in the same directory
	// Sum is the SHA-256 of the replacement, in hex; "" unless that is a file.
	Sum string `json:"sum,omitempty"`
}

// stateVersion is the version of the state file.
const stateVersion = 1

// ParseState parses a state file. If data is nil, it returns an empty state.
func ParseState(data []byte) (State, error) {
	s := State{Version: stateVersion}
	if data == nil {
		return s, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return State{Version: stateVersion}, fmt.Errorf("the state file cannot be read: %w", err)
	}
	if s.Version != stateVersion {
		return State{Version: stateVersion}, fmt.Errorf("the state file has version %d: must be %d", s.Version, stateVersion)
	}
	return s, nil
}

// Encode returns the content of the state file.
func (s State) Encode() []byte {
	data, _ := json.MarshalIndent(s, "", " ") // no field can fail to encode
	return append(data, '\n')
}

// Seen is the result of an observation of the address.
type Seen string

// The results of an observation.
const (
	SeenNew   Seen = "new"   // the leaf of the store
	SeenOld   Seen = "old"   // the leaf that it served before
	SeenOther Seen = "other" // another certificate
	SeenNone  Seen = "none"  // no TLS handshake with a certificate
)

// Served is the fingerprint of the served certificate, or the reason why none was served.
type Served struct {
	Fingerprint string
	Failure     string
}

// Begin returns the state before a switch to a content. back is the reason of a rollback, or "". After a
// rollback, the content with ID from is avoided for a while.
func (s State) Begin(st *Store, to *Content, before Served, back, from string, now time.Time) State {
	sw := &Switch{To: to.ID, Leaf: to.Fingerprint, At: now, Back: back, Acted: st.Action.None(), Proven: st.Check == nil, Before: before.Fingerprint}
	if sw.Acted {
		sw.ActedAt = now
	}
	if back != "" {
		s.Avoid = &Avoid{ID: from, Until: now.Add(avoidFor), Why: back}
	} else if s.Avoid != nil && s.Avoid.ID != to.ID {
		s.Avoid = nil
	}
	s.Switch = sw
	return s
}

// Acted returns the state after the action has run; err is its failure, or nil.
func (s State) Acted(err error, now time.Time) State {
	sw := *s.Switch
	sw.Attempts, sw.ActedAt, sw.Acted, sw.Failure, sw.Verdict = sw.Attempts+1, now, err == nil, "", ""
	if err != nil {
		sw.Failure = Shorten(err.Error(), maxText)
	}
	s.Switch = &sw
	return s
}

// Observed returns the state after an observation of the address.
func (s State) Observed(st *Store, served Served, now time.Time) State {
	sw := *s.Switch
	sw.SeenAt, sw.Detail = now, ""
	switch served.Fingerprint {
	case "":
		sw.Seen, sw.Detail = SeenNone, Shorten(served.Failure, maxText)
	case sw.Leaf:
		sw.Seen, sw.Proven, sw.Acted, sw.Failure = SeenNew, true, true, "" // even if the action failed
	case sw.Before:
		sw.Seen = SeenOld
	default:
		sw.Seen, sw.Detail = SeenOther, "sha256:"+served.Fingerprint[:8]
	}
	if sw.Verdict == "" && !now.Before(sw.deadline(st)) {
		sw.Verdict = sw.Seen
	}
	s.Switch = &sw
	return s
}

// deadline returns the time by which the address must serve the leaf.
func (sw *Switch) deadline(st *Store) time.Time { return sw.ActedAt.Add(st.Check.Timeout) }

// maxText is the largest size in bytes of the text of a program or a peer in a state.
const maxText = 256

// Shorten returns the text, or its first most bytes and an ellipsis if it is longer.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
