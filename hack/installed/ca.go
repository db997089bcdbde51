package installed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// CAStatus returns the status of the CA that the signer publishes.
func (c *Cluster) CAStatus(ctx context.Context) (api.CAStatus, error) {
	m, err := c.Clientset.CoreV1().ConfigMaps(api.DefaultNamespace).Get(ctx, api.CAStatusName, metav1.GetOptions{})
	if err != nil {
		return api.CAStatus{}, err
	}
	return api.ParseCAStatus(m.Data), nil
}

// Rotate requests a new generation of the CA, as kubectl servingcert rotate-ca does.
func (c *Cluster) Rotate(ctx context.Context, mode api.RotateMode, reason string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": api.RotateRequest{Mode: mode, Reason: reason}.Annotations()}})
	if err != nil {
		return err
	}
	_, err = c.Clientset.CoreV1().ConfigMaps(api.DefaultNamespace).Patch(ctx, api.CAStatusName, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// ErrRefused is the error of a requested generation that never signs.
var ErrRefused = errors.New("refused")

// Rotated returns nil if the requested generation signs, and otherwise an error with what it waits
// for, or why the request was refused.
func Rotated(status *api.CAStatus, mode api.RotateMode, reason string) error {
	switch {
	case status.Rotation != api.RotateRequest{Mode: mode, Reason: reason}:
		return errors.New("the request was not processed")
	case status.RotationOutcome.Refused:
		return fmt.Errorf("%w: %s", ErrRefused, status.RotationOutcome.Why)
	case !status.RotationOutcome.Signs:
		return errors.New("waiting for: " + status.WaitingFor)
	}
	return nil
}

// AwaitRotated waits until the generation signs that Rotate asked for.
func (c *Cluster) AwaitRotated(ctx context.Context, mode api.RotateMode, reason string) error {
	return Until(ctx, "the new generation signs", func(ctx context.Context) error {
		status, err := c.CAStatus(ctx)
		if err != nil {
			return err
		}
		return Rotated(&status, mode, reason)
	})
}

// AwaitProblem waits until the signer reports that problem with its CA.
func (c *Cluster) AwaitProblem(ctx context.Context, reason string) error {
	return Until(ctx, "problem "+reason, func(ctx context.Context) error {
		status, err := c.CAStatus(ctx)
		if err == nil && status.Problem.Reason != reason {
			err = fmt.Errorf("the status says %q", status.Problem)
		}
		return err
	})
}
