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
		"namespace": {func(c *Config) { c.Namespace = "No Name" }, `--namespace: "No Name": not a valid namespace name: `},
		"targets":   {func(c *Config) { c.Targets = nil }, `--targets: "": must list at least one of NamespaceConfigMap, `},
		"target":    {func(c *Config) { c.Targets = []string{"Secret"} }, `--targets: "Secret": unknown kind of target: must be one of NamespaceConfigMap, `},
		"workers":   {func(c *Config) { c.Workers = 0 }, `--workers: "0": must be at least 1`},
		"backoff":   {func(c *Config) { c.MaxBackoff = 0 }, `--max-backoff: "0s": must be at least 100ms`},
		"delay":     {func(c *Config) { c.StatusDelay = -1 }, `Config.StatusDelay: "-1ns": must not be negative`},
		"patience":  {func(c *Config) { c.Patience = 0 }, `Config.Patience: "0s": must be positive`},
		"probes":    {func(c *Config) { c.ProbeInterval = 0 }, `Config.ProbeInterval: "0s": must be positive`},
		"clock":     {func(c *Config) { c.Now = nil }, "Config.Now: must be set"},
		"metrics":   {func(c *Config) { c.Metrics = nil }, "Config.Metrics: must be set"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := valid()
			tt.spoil(&c)
			assert.ErrorContains(t, c.Validate(), tt.want)
		})
	}
}
