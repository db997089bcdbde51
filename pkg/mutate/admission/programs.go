package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// programTable is the table of programs: the one that is built in, with the entries of
// ConfigMap api.ProgramsName. While these are not valid, the last that were stay in use.
type programTable struct {
	current atomic.Pointer[programs.Table]
	valid   prometheus.Gauge
	log     logr.Logger
}

func newProgramTable(valid prometheus.Gauge, log logr.Logger) *programTable {
	t := &programTable{valid: valid, log: log}
	t.set(programs.Builtin())
	return t
}

func (t *programTable) set(table programs.Table) {
	t.current.Store(&table)
	t.valid.Set(1)
}

// watch follows the ConfigMap in c, which must have the options of CacheOptions.
func (t *programTable) watch(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch ConfigMap %q: %w", api.ProgramsName, err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { t.changed(object) },
		UpdateFunc: func(_, object any) { t.changed(object) },
		DeleteFunc: func(any) { t.deleted() },
	})
	return err
}

// maxLogged bounds the text of an error that is logged, in characters: a table may have thousands of
// mistakes, and a review long names.
const maxLogged = 4000

// changed takes the entries of the ConfigMap, if they are valid.
func (t *programTable) changed(object any) {
	cm, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	table, err := programs.OfConfigMap(cm)
	if err != nil {
		t.valid.Set(0)
		t.log.Error(errors.New(api.Shorten(err.Error(), maxLogged)), "table of programs refused: the last valid one stays in use", "configMap", cm.Name)
		return
	}
	t.set(table)
	t.log.Info("took the table of programs", "configMap", cm.Name, "programs", len(table.All()))
}

// deleted goes back to the table that is built in.
func (t *programTable) deleted() {
	t.set(programs.Builtin())
	t.log.Info("no table of programs: those that are built in are known", "configMap", api.ProgramsName)
}
