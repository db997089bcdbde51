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
	valid.Choose, valid.Now, valid.Metrics = chooseFirst, time.Now, prometheus.NewRegistry()
	require.NoError(t, valid.Validate())
	for name, tt := range map[string]struct {
		wrong func(*Config)
		want  string
	}{
		"namespace": {func(c *Config) { c.Namespace = "No Name" }, `namespace "No Name": no name of a namespace`},
		"workers":   {func(c *Config) { c.Workers = 0 }, "--workers: 0: must be 1 or more"},
		"delay":     {func(c *Config) { c.Delay = -1 }, "delay -1ns: must be 0 or more"},
		"patience":  {func(c *Config) { c.Patience = -1 }, "patience -1ns: must be 0 or more"},
		"events":    {func(c *Config) { c.MaxEvents = 0 }, "events 0: must be 1 or more"},
		"choose":    {func(c *Config) { c.Choose = nil }, "nothing says which Secret"},
		"clock":     {func(c *Config) { c.Now = nil }, "no clock"},
		"metrics":   {func(c *Config) { c.Metrics = nil }, "no registry for metrics"},
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
