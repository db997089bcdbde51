package hostfiles

import (
	"encoding/json"
	"fmt"
	"time"
)

// State is what is remembered of a store between switches: on the host, so that a process that is
// killed goes on where it was.
type State struct {
	Version int `json:"version"`
	// Switch is the last one that was begun: it is written down before the switch itself.
	Switch *Switch `json:"switch,omitempty"`
	// Avoid is a content that was taken back.
	Avoid *Avoid `json:"avoid,omitempty"`
	// Originals are what was there before the store.
	Originals []Original `json:"originals,omitempty"`
	// Owned are paths outside the store's directory that it has written.
	Owned []string `json:"owned,omitempty"`
}

// Switch is one switch of a store, and how far it is.
type Switch struct {
	To   string    `json:"to"`   // Content.ID
	Leaf string    `json:"leaf"` // fingerprint
	At   time.Time `json:"at"`
	// Back says why the store went back to an earlier content, if it did.
	Back string `json:"back,omitempty"`
	// Before is the fingerprint that the address served before the switch; "" if it served none.
	Before string `json:"before,omitempty"`
	// Acted is true once the action succeeded, or there is none.
	Acted    bool      `json:"acted"`
	Attempts int       `json:"attempts,omitempty"`
	ActedAt  time.Time `json:"actedAt,omitzero"` // when the last attempt ended
	Failure  string    `json:"failure,omitempty"`
	// Proven is true once the address served the leaf, or there is no address.
	Proven bool `json:"proven"`
	// Seen is what it served last, and at SeenAt. Verdict is what it served when the time was over that
	// it has after the last attempt.
	Seen    Seen      `json:"seen,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	SeenAt  time.Time `json:"seenAt,omitzero"`
	Verdict Seen      `json:"verdict,omitempty"`
}

// Avoid is a content that is not installed until then, as the program did not survive it.
type Avoid struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
	Why   string    `json:"why"`
}

// Original is something that was at a path before the store.
type Original struct {
	Path string `json:"path"` // absolute
	Kept string `json:"kept"` // its name now, in the same directory
	// Sum is the SHA-256 of the file that takes its place, in hex; "" for anything but a file.
	Sum string `json:"sum,omitempty"`
}

// stateVersion is the version of the file.
const stateVersion = 1

// ParseState reads the file of a state. No file is a state, too.
func ParseState(data []byte) (State, error) {
	s := State{Version: stateVersion}
	if data == nil {
		return s, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return State{Version: stateVersion}, fmt.Errorf("the state cannot be read: %w", err)
	}
	if s.Version != stateVersion {
		return State{Version: stateVersion}, fmt.Errorf("the state has version %d: must be %d", s.Version, stateVersion)
	}
	return s, nil
}

// Encode returns the file of the state.
func (s State) Encode() []byte {
	data, _ := json.MarshalIndent(s, "", " ") // strings, numbers and times have a form in JSON
	return append(data, '\n')
}

// Seen is what an address serves.
type Seen string

// What an address may serve.
const (
	SeenNew   Seen = "new"   // the leaf of the store
	SeenOld   Seen = "old"   // the leaf that it served before
	SeenOther Seen = "other" // another certificate
	SeenNone  Seen = "none"  // it does not accept, or speaks no TLS
)

// Served is what was found at an address: a fingerprint, or why there is none.
type Served struct {
	Fingerprint string
	Failure     string
}

// Begin returns the state in which a switch to a content is about to be made. back says why, if it
// goes back; then the content that is left is avoided for a while.
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

// Acted returns the state after an attempt to act; err is how it failed.
func (s State) Acted(err error, now time.Time) State {
	sw := *s.Switch
	sw.Attempts, sw.ActedAt, sw.Acted, sw.Failure, sw.Verdict = sw.Attempts+1, now, err == nil, "", ""
	if err != nil {
		sw.Failure = bounded(err.Error())
	}
	s.Switch = &sw
	return s
}

// Observed returns the state after the address was dialled.
func (s State) Observed(st *Store, served Served, now time.Time) State {
	sw := *s.Switch
	sw.SeenAt, sw.Detail = now, ""
	switch served.Fingerprint {
	case "":
		sw.Seen, sw.Detail = SeenNone, bounded(served.Failure)
	case sw.Leaf:
		sw.Seen, sw.Proven, sw.Acted, sw.Failure = SeenNew, true, true, "" // whatever the action said
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

// deadline is when the time is over that the address has to serve the leaf.
func (sw *Switch) deadline(st *Store) time.Time { return sw.ActedAt.Add(st.Check.Timeout) }

// bounded cuts a text of a program or a peer, which may be of any length.
func bounded(text string) string {
	const most = 256
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
