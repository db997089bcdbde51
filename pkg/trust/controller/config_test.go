package controller

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfig(t *testing.T) {
	valid := func() Config {
		c := DefaultConfig()
		c.Now, c.Metrics = time.Now, prometheus.NewRegistry()
		return c
	}
	require.NoError(t, valid().Validate())
	tests := map[string]struct {
		spoil func(*Config)
		want  string
	}{
		"namespace": {func(c *Config) { c.Namespace = "No Name" }, `namespace "No Name": no name of a namespace`},
		"targets":   {func(c *Config) { c.Targets = nil }, "--targets: none given: must be some of NamespaceConfigMap, "},
		"target":    {func(c *Config) { c.Targets = []string{"Secret"} }, `--targets: "Secret" is unknown`},
		"workers":   {func(c *Config) { c.Workers = 0 }, "--workers: 0: must be 1 or more"},
		"backoff":   {func(c *Config) { c.MaxBackoff = 0 }, "--max-backoff: 0s: must be 100ms or more"},
		"delay":     {func(c *Config) { c.StatusDelay = -1 }, "status delay -1ns: must be 0 or more"},
		"patience":  {func(c *Config) { c.Patience = 0 }, "patience 0s: must be more than 0"},
		"probes":    {func(c *Config) { c.ProbeInterval = 0 }, "probe interval 0s: must be more than 0"},
		"clock":     {func(c *Config) { c.Now = nil }, "no clock"},
		"metrics":   {func(c *Config) { c.Metrics = nil }, "no registry"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := valid()
			tt.spoil(&c)
			assert.ErrorContains(t, c.Validate(), tt.want)
		})
	}
}
