package trust

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDecide(t *testing.T) {
	var (
		bundle    = Bundle{PEM: []byte("new"), Hash: "new", Until: noon.Add(time.Hour)}
		pending   = Differs("something else")
		missing   = Evaluation{StatePending, ReasonMissing, "not there"}
		immutable = Evaluation{StateRefuses, ReasonImmutable, "immutable"}
		noField   = Evaluation{StateUnsuitable, ReasonNoField, "no field"}
		noSource  = errors.New("no source")
		toExpiry  = time.Hour + time.Second
	)
	tests := []struct {
		name string
		s    Situation
		want Decision
	}{
		{"not asked", Situation{Held: Holds(), Exists: true}, Decision{Forget: true}},
		{"not asked any more", Situation{Exists: true, Owned: true}, Decision{Forget: true, Release: true}},
		{"not requested, whatever the source", Situation{NoBundle: noSource}, Decision{Forget: true}},
		{"no source, target differs", Situation{Requested: true, Exists: true, NoBundle: noSource}, Decision{Held: Evaluation{StatePending, ReasonNoSource, "no source"}}},
		{"no source, target missing", Situation{Requested: true, NoBundle: noSource}, Decision{Held: Evaluation{StatePending, ReasonNoSource, "no source"}}},
		{"no source: ownership is not given up", Situation{Requested: true, Exists: true, Owned: true, Release: true, NoBundle: noSource}, Decision{Held: Evaluation{StatePending, ReasonNoSource, "no source"}}},
		{"holds", Situation{Requested: true, Exists: true, Owned: true, Held: Holds()}, Decision{Held: Holds(), After: toExpiry}},
		{"holds, to be released", Situation{Requested: true, Exists: true, Owned: true, Release: true, Held: Holds()}, Decision{Held: Holds(), Release: true, After: toExpiry}},
		{"holds, released", Situation{Requested: true, Exists: true, Release: true, Held: Holds()}, Decision{Held: Holds(), After: toExpiry}},
		{"immutable", Situation{Requested: true, Exists: true, Held: immutable}, Decision{Held: immutable, After: toExpiry}},
		{"no field", Situation{Requested: true, Exists: true, Held: noField}, Decision{Held: noField, After: toExpiry}},
		{"differs", Situation{Requested: true, Exists: true, Held: pending}, Decision{Held: pending, Write: WhyUpdate}},
		{"differs, held the one before", Situation{Requested: true, Exists: true, Held: pending, Last: Record{heldHash: "old"}}, Decision{Held: pending, Write: WhyUpdate}},
		{"differs, held this one", Situation{Requested: true, Exists: true, Held: pending, Last: Record{heldHash: "new"}}, Decision{Held: pending, Write: WhyRestore}},
		{"differs, and the write may change nothing", Situation{Requested: true, Exists: true, Held: pending, Patience: time.Minute}, Decision{Held: pending, Write: WhyUpdate, After: time.Minute}},
		{"missing", Situation{Requested: true, Held: missing}, Decision{Held: missing, Write: WhyCreate}},
		{"missing, held this one", Situation{Requested: true, Held: missing, Last: Record{heldHash: "new"}}, Decision{Held: missing, Write: WhyRestore}},
		{"written just now", Situation{Requested: true, Exists: true, Held: pending, Last: Record{wrote: "new", wroteAt: noon.Add(-300 * time.Millisecond)}}, Decision{Held: pending, After: 700 * time.Millisecond}},
		{"written a while ago", Situation{Requested: true, Exists: true, Held: pending, Last: Record{wrote: "new", wroteAt: noon.Add(-time.Second)}}, Decision{Held: pending, Write: WhyUpdate}},
		{"another one written just now", Situation{Requested: true, Exists: true, Held: pending, Last: Record{wrote: "old", wroteAt: noon}}, Decision{Held: pending, Write: WhyUpdate}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Now, tt.s.Bundle = noon, bundle
			assert.Equal(t, tt.want, Decide(tt.s))
		})
	}
}
