package rotator

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfig(t *testing.T) {
	valid := DefaultConfig()
	valid.Cluster.Now, valid.Cluster.Metrics = time.Now, prometheus.NewRegistry()
	require.NoError(t, valid.Validate())
	for name, tt := range map[string]struct {
		wrong func(*Config)
		want  string
	}{
		"namespace":         {func(c *Config) { c.Cluster.Namespace = "No Name" }, `namespace: "No Name": not a valid namespace name`},
		"workers":           {func(c *Config) { c.Cluster.Workers = 0 }, `workers of the rotator's controllers: "0": must be at least 1`},
		"delay":             {func(c *Config) { c.Cluster.Delay = -1 }, `delay: "-1ns": must not be negative`},
		"clock":             {func(c *Config) { c.Cluster.Now = nil }, "clock: must be set"},
		"metrics":           {func(c *Config) { c.Cluster.Metrics = nil }, "registry for metrics: must be set"},
		"patience":          {func(c *Config) { c.Uninjected.Patience = -1 }, `"-1ns": must not be negative`},
		"events":            {func(c *Config) { c.Uninjected.MaxEvents = 0 }, `events for missed pods: "0": must be at least 1`},
		"concurrency":       {func(c *Config) { c.Probe.Concurrency = 0 }, `--probe-concurrency: "0": must be from 1 to 512`},
		"timeout":           {func(c *Config) { c.Probe.Timeout = time.Hour }, `--probe-timeout: "1h0m0s": must be from 10ms to 1m`},
		"interval":          {func(c *Config) { c.Serving.Interval = 0 }, `--verify-interval: "0s": must be at least 1s`},
		"propagation":       {func(c *Config) { c.Serving.PropagationTime = 0 }, `--propagation-time: "0s": must be at least 1s`},
		"pause":             {func(c *Config) { c.Serving.Pause = 0 }, `pause between two dials of a pod: "0s": must be at least 1ms`},
		"wake rate":         {func(c *Config) { c.KubeletSync.Rate = 0 }, `--wake-rate: "0": must be at least 1; --wake=false wakes no pod`},
		"wake delay":        {func(c *Config) { c.KubeletSync.Delay = -1 }, `delay after a new bundle: "-1ns": must not be negative`},
		"wake retry":        {func(c *Config) { c.KubeletSync.Retry = 0 }, `retry of wakes: "0s": must be positive`},
		"restarts":          {func(c *Config) { c.Restart.Max = -1 }, `--max-restarts: "-1": must not be negative`},
		"stuck":             {func(c *Config) { c.Restart.StuckAfter = 0 }, `restarts: time until stuck: "0s": must be positive`},
		"time of a place":   {func(c *Config) { c.Restart.PlaceFor = 0 }, `restarts: time of a place: "0s": must be positive`},
		"patience of holds": {func(c *Config) { c.Restart.Patience = -1 }, `restarts: patience: "-1ns": must not be negative`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := valid
			tt.wrong(&cfg)
			require.ErrorContains(t, cfg.Validate(), tt.want)
			require.ErrorContains(t, Setup(nil, cfg), "rotator: ")
		})
	}
	assert.NoError(t, valid.Validate())
}

// --workers sets the workers of package trust: the error must not name it.
func TestNoFlagIsBlamedThatSetsSomethingElse(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Cluster.Workers = 0
	assert.NotContains(t, cfg.Cluster.Validate().Error(), "--workers")
}
