package controller

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

func TestConfigErrorsNameTheFlag(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"as without flags":       {func(*Config) {}, ""},
		"no instance":            {func(c *Config) { c.Instance = "" }, `--instance: "": must be a label value`},
		"instance is no label":   {func(c *Config) { c.Instance = "a b" }, `--instance: "a b": must be a label value`},
		"no workers":             {func(c *Config) { c.Workers = 0 }, `--workers: "0": must be at least 1`},
		"too short":              {func(c *Config) { c.Limits.MinDuration = 10 * time.Minute }, `--min-duration: "10m0s": must be at least 15m`},
		"shortest over longest":  {func(c *Config) { c.Limits.MaxDuration = 30 * time.Minute }, `--max-duration: "30m0s": must be at least --min-duration (1h0m0s)`},
		"default below shortest": {func(c *Config) { c.Limits.DefaultDuration = 30 * time.Minute }, `--default-duration: "30m0s": must be between`},
		"default over longest":   {func(c *Config) { c.Limits.DefaultDuration = 9999 * time.Hour }, `--default-duration: "9999h0m0s": must be between`},
		"no limits":              {func(c *Config) { c.Rates = ratelimit.Rates{} }, ""},
		"negative burst":         {func(c *Config) { c.Rates.Secret.Burst = -1 }, `--secret-issue-burst: "-1": must be at least 1, or 0 for no limit`},
		"interval too long":      {func(c *Config) { c.Rates.Namespace.Interval = 2 * time.Hour }, `--namespace-reissue-interval: "2h0m0s": must be between 0s and 1h0m0s`},
		"negative interval":      {func(c *Config) { c.Rates.Secret.Interval = -time.Second }, `--secret-issue-interval: "-1s": must be between 0s and 1h0m0s`},
		"addresses too short":    {func(c *Config) { c.Limits.ClusterIPDuration = 0 }, `--cluster-ip-duration: "0s": must be at least 15m, in whole seconds`},
		"no whole seconds":       {func(c *Config) { c.Limits.MinDuration += time.Millisecond }, "must be in whole seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Instance: api.DefaultInstance, Workers: 1, Limits: api.DefaultLimits(), Rates: ratelimit.DefaultRates()}
			c.change(&cfg)
			if err := cfg.Validate(); c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
		})
	}
}

// The shortest lifetime that the flags allow leaves time between the issuance of
// a certificate and its renewal.
func TestTheShortestCertificateIsNotDueAtOnce(t *testing.T) {
	shortest := Config{Instance: api.DefaultInstance, Workers: 1, Limits: api.DefaultLimits()}
	for shortest.Limits.MinDuration = time.Minute; shortest.Validate() != nil; shortest.Limits.MinDuration += time.Second {
		require.Less(t, shortest.Limits.MinDuration, time.Hour)
	}
	ca := testCA(t)
	wanted := wantedBy(service("web"))
	wanted.Params.Duration = shortest.Limits.MinDuration
	for range 100 {
		issued, err := issue.Issue(context.Background(), plainSign, ca, wanted, epoch)
		require.NoError(t, err)
		renewAt := pki.RenewAt(issued.Leaf)
		require.Greater(t, renewAt.Sub(epoch), 4*time.Minute)
	}
}
