package facts

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// AddController adds a controller with the sources to the manager, which runs it on the leader.
func AddController(mgr manager.Manager, name string, options controller.Options, sources ...source.Source) error {
	c, err := NewController(mgr, name, options, sources...)
	if err != nil {
		return err
	}
	return mgr.Add(c)
}

// NewController returns a controller with the sources, and the Reconciler of its name. It is not added to the
// manager.
func NewController(mgr manager.Manager, name string, options controller.Options, sources ...source.Source) (controller.Controller, error) {
	anyName := true // controller-runtime requires unique names in a process; tests run several managers
	options.SkipNameValidation = &anyName
	options.Reconciler = Reconciler(name, options.Reconciler)
	options.DefaultFromConfig(mgr.GetControllerOptions())
	c, err := controller.NewUnmanaged(name, options)
	if err != nil {
		return nil, fmt.Errorf("make controller %s: %w", name, err)
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return nil, fmt.Errorf("controller %s: watch %v: %w", name, s, err)
		}
	}
	return c, nil
}
