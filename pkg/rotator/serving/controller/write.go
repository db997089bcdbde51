package controller

import (
	"context"
	"errors"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// write sets the conditions.
func write(ctx context.Context, conditions *cluster.Conditions, changes []serving.ConditionUpdate) error {
	var errs []error
	for _, change := range changes {
		_, err := conditions.Set(ctx, change.Service, change.Want)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
