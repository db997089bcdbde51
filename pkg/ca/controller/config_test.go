package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

func TestConfigValidate(t *testing.T) {
	limits := api.DefaultLimits()
	valid := Config{
		Namespace: "servingcert-system", Parameters: ca.Parameters{MaxDuration: limits.MaxDuration, Constraints: limits.Constraints(), Domain: "cluster.local"},
		Clock: func() time.Time { return start }, ManagedExist: noneManaged,
	}
	require.NoError(t, valid.Validate(), "the defaults go together")
	cases := []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no namespace", func(c *Config) { c.Namespace = "" }, "--namespace"},
		{"no name of a namespace", func(c *Config) { c.Namespace = "A_b" }, "--namespace"},
		{"no longest leaf", func(c *Config) { c.MaxDuration = 0 }, "--max-duration"},
		{"a negative CA", func(c *Config) { c.CADuration = -time.Hour }, "--ca-duration"},
		{"a negative grace for refusals", func(c *Config) { c.RefusalGrace = -time.Second }, "--ca-refusal-grace"},
		{"a negative soak", func(c *Config) { c.Soak = -time.Second }, "--ca-soak"},
		{"a negative window", func(c *Config) { c.Reissue = -time.Second }, "--ca-reissue-window"},
		{"no cluster domain", func(c *Config) { c.Domain = "" }, "no cluster domain"},
		{"a CA too short by a second", func(c *Config) { c.CADuration = 3*(2160*time.Hour+5*time.Minute) - time.Second }, `--ca-duration: "6480h14m59s": `},
		{"a soak too long", func(c *Config) { c.Soak = 7000 * time.Hour }, "--ca-duration"},
		{"no domain", func(c *Config) { c.Constraints.PermittedDNS = nil }, "no permitted domain"},
		{"no clock", func(c *Config) { c.Clock = nil }, "no clock"},
		{"no way to see Secrets", func(c *Config) { c.ManagedExist = nil }, "managed Secrets"},
	}
	for _, c := range cases {
		config := valid
		c.change(&config)
		assert.ErrorContains(t, config.Validate(), c.want, c.name)
		_, err := newController(config)
		assert.ErrorContains(t, err, c.want, c.name)
	}

	short := valid
	short.CADuration = 100 * time.Hour
	err := short.Validate()
	require.Error(t, err)
	for _, part := range []string{"at least 6480h21m0s", "--max-duration 2160h0m0s", "--ca-soak 7m0s", "--max-duration must be at most 33h13m0s"} {
		assert.Contains(t, err.Error(), part, "what is allowed")
	}
	for name, change := range map[string]func(*Config){
		"the CA as it says": func(c *Config) { c.CADuration = 6480*time.Hour + 21*time.Minute },
		"the leaf as it says": func(c *Config) {
			c.CADuration, c.MaxDuration = 100*time.Hour, 33*time.Hour+13*time.Minute
		},
	} {
		fixed := valid
		change(&fixed)
		assert.NoError(t, fixed.Validate(), name)
	}
	assert.NotContains(t, err.Error(), "\n", "one line")
}
