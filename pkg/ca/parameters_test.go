package ca

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestDefaultsOfParameters(t *testing.T) {
	constraints := pki.Constraints{PermittedDNS: []string{"svc"}}.Normalize()
	assert.Equal(t, Parameters{
		CADuration: DefaultCADuration, Soak: DefaultSoak, RefusalGrace: DefaultRefusalGrace, Reissue: DefaultReissue, Constraints: constraints,
	}, Parameters{Constraints: pki.Constraints{PermittedDNS: []string{"svc", "svc"}}}.WithDefaults())
	chosen := Parameters{CADuration: 1, Soak: 2, RefusalGrace: 3, Reissue: 4, Constraints: constraints}
	assert.Equal(t, chosen, chosen.WithDefaults())
}

func TestValidateParameters(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Parameters)
		want   string // "" for none
	}{
		"as they are":       {func(*Parameters) {}, ""},
		"zero values":       {func(p *Parameters) { p.CADuration, p.Soak, p.RefusalGrace, p.Reissue = 0, 0, 0, 0 }, ""},
		"a cluster ID":      {func(p *Parameters) { p.ClusterID = "a\nb" }, "--cluster-id: "},
		"no certificate":    {func(p *Parameters) { p.MaxDuration = 0 }, `--max-duration: "0s": must be positive`},
		"shortest":          {func(p *Parameters) { p.MaxDuration = 1 }, ""},
		"soak":              {func(p *Parameters) { p.Soak = -1 }, `--ca-soak: "-1ns": must not be negative`},
		"refusal grace":     {func(p *Parameters) { p.RefusalGrace = -1 }, `--ca-refusal-grace: "-1ns": must be positive`},
		"reissue":           {func(p *Parameters) { p.Reissue = -1 }, `--ca-reissue-window: "-1ns": must not be negative`},
		"shortest CA":       {func(p *Parameters) { p.CADuration, p.MaxDuration, p.Soak = 9*time.Hour, 2*time.Hour, time.Hour }, ""},
		"a CA too short":    {func(p *Parameters) { p.CADuration, p.MaxDuration, p.Soak = 9*time.Hour-3, 2*time.Hour, time.Hour }, `--ca-duration: "8h59m59.999999997s": must be at least three times --max-duration plus --ca-soak: at least 9h0m0s with --max-duration 2h0m0s and --ca-soak 1h0m0s, or --max-duration must be at most 1h59m59.999999999s`},
		"a CA for no leaf":  {func(p *Parameters) { p.CADuration, p.Soak = time.Hour, time.Hour }, "or --max-duration must be at most 0s"},
		"every name":        {func(p *Parameters) { p.Constraints.PermittedDNS = nil }, "CA constraints: no permitted domain"},
		"no cluster domain": {func(p *Parameters) { p.Domain = "" }, "CA: no cluster domain"},
	} {
		t.Run(name, func(t *testing.T) {
			p := situation(nil).Parameters
			c.change(&p)
			if c.want == "" {
				assert.NoError(t, p.Validate())
			} else {
				assert.ErrorContains(t, p.Validate(), c.want)
			}
		})
	}
}
