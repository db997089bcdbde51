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
		pending   = differs("something else")
		missing   = Judgement{StatePending, ReasonMissing, "not there"}
		immutable = Judgement{StateRefuses, ReasonImmutable, "immutable"}
		noField   = Judgement{StateUnsuitable, ReasonNoField, "no field"}
		noSource  = errors.New("no source")
		toExpiry  = time.Hour + time.Second
	)
	tests := []struct {
		name string
		g    gathered
		want decision
	}{
		{"not asked", gathered{held: holds(), exists: true}, decision{forget: true}},
		{"not asked any more", gathered{exists: true, owned: true}, decision{forget: true, release: true}},
		{"not asked, whatever the source", gathered{source: noSource}, decision{forget: true}},
		{"no source, target differs", gathered{asked: true, exists: true, source: noSource}, decision{held: Judgement{StatePending, ReasonNoSource, "no source"}}},
		{"no source, target missing", gathered{asked: true, source: noSource}, decision{held: Judgement{StatePending, ReasonNoSource, "no source"}}},
		{"no source: ownership is not given up", gathered{asked: true, exists: true, owned: true, release: true, source: noSource}, decision{held: Judgement{StatePending, ReasonNoSource, "no source"}}},
		{"holds", gathered{asked: true, exists: true, owned: true, held: holds()}, decision{held: holds(), after: toExpiry}},
		{"holds, to be released", gathered{asked: true, exists: true, owned: true, release: true, held: holds()}, decision{held: holds(), release: true, after: toExpiry}},
		{"holds, released", gathered{asked: true, exists: true, release: true, held: holds()}, decision{held: holds(), after: toExpiry}},
		{"immutable", gathered{asked: true, exists: true, held: immutable}, decision{held: immutable, after: toExpiry}},
		{"no field", gathered{asked: true, exists: true, held: noField}, decision{held: noField, after: toExpiry}},
		{"differs", gathered{asked: true, exists: true, held: pending}, decision{held: pending, write: WhyUpdate}},
		{"differs, held the one before", gathered{asked: true, exists: true, held: pending, last: record{heldHash: "old"}}, decision{held: pending, write: WhyUpdate}},
		{"differs, held this one", gathered{asked: true, exists: true, held: pending, last: record{heldHash: "new"}}, decision{held: pending, write: WhyRestore}},
		{"missing", gathered{asked: true, held: missing}, decision{held: missing, write: WhyCreate}},
		{"missing, held this one", gathered{asked: true, held: missing, last: record{heldHash: "new"}}, decision{held: missing, write: WhyRestore}},
		{"written just now", gathered{asked: true, exists: true, held: pending, last: record{wrote: "new", wroteAt: noon.Add(-300 * time.Millisecond)}}, decision{held: pending, after: 700 * time.Millisecond}},
		{"written a while ago", gathered{asked: true, exists: true, held: pending, last: record{wrote: "new", wroteAt: noon.Add(-time.Second)}}, decision{held: pending, write: WhyUpdate}},
		{"another one written just now", gathered{asked: true, exists: true, held: pending, last: record{wrote: "old", wroteAt: noon}}, decision{held: pending, write: WhyUpdate}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.g.now, tt.g.bundle = noon, bundle
			assert.Equal(t, tt.want, decide(tt.g))
		})
	}
}
