//go:build e2e && !linux

package e2e

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
)

// kill9 is for the scene that needs the node on this machine.
func kill9(string, types.UID) error {
	return errors.New("nodes run on Linux only")
}
