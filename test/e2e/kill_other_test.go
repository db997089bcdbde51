//go:build e2e && !linux

package e2e

import (
	"context"
	"errors"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

var errLinuxOnly = errors.New("nodes run on Linux only")

type sent struct {
	to    netip.AddrPort
	first []byte
}

func sends(context.Context, int) ([]sent, error) { return nil, errLinuxOnly }

// processesIn and kill9 are for the scene that needs the node on this machine.

func processesIn(types.UID, string) ([]int, error) { return nil, errLinuxOnly }

func kill9([]int) error { return errLinuxOnly }
