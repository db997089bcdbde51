package programs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// WithBuiltin returns the built-in table with the entries of an operator: a YAML document as
// Parse reads it. The error lists each mistake with its line.
func WithBuiltin(data []byte) (Table, error) {
	more, err := Parse(data)
	if err != nil {
		return Table{}, err
	}
	return Builtin().With(more)
}

// OfConfigMap returns the built-in table with the entries of ConfigMap api.ProgramsName.
func OfConfigMap(cm *corev1.ConfigMap) (Table, error) {
	for key := range cm.Data {
		if key != api.ProgramsKey {
			return Table{}, fmt.Errorf("key %q: must be %s", key, api.ProgramsKey)
		}
	}
	table, err := WithBuiltin([]byte(cm.Data[api.ProgramsKey]))
	if err != nil {
		return Table{}, fmt.Errorf("%s: %w", api.ProgramsKey, err)
	}
	return table, nil
}
