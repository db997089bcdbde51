package controller

import (
	"context"
	"errors"

	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// write sets the conditions.
func (r *reconciler) write(ctx context.Context, changes []serving.ConditionUpdate) error {
	var errs []error
	for _, change := range changes {
		_, err := r.conditions.Set(ctx, change.Service, change.Want)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
