package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Config says which kubelets are dialled.
type Config struct {
	// Enabled: without it nothing is dialled, and no right is needed.
	Enabled bool
	// NodeCIDRs are the ranges that nodes have their addresses in. Others are not dialled: a node reports
	// its addresses itself.
	NodeCIDRs []string
}

// Validate returns an error that says what is wrong and what is allowed.
func (c Config) Validate() error {
	if _, err := api.ParseRanges(c.NodeCIDRs); err != nil {
		return fmt.Errorf("--node-cidrs: %w", err)
	}
	if c.Enabled && len(c.NodeCIDRs) == 0 {
		return errors.New("--verify-kubelets: requires --node-cidrs: a node reports its addresses itself")
	}
	return nil
}

// Dialling is how they are dialled: as pods are.
type Dialling struct {
	Interval, Timeout time.Duration
	Concurrency       int
}
