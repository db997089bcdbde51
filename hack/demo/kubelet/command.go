package kubelet

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Command returns the program, its arguments and the environment of a container
// as it is to be started. fields are the values of the fieldRefs that its
// environment may use, such as status.podIP.
func Command(c corev1.Container, fields map[string]string) (argv, env []string, err error) {
	if len(c.Command) == 0 {
		return nil, nil, fmt.Errorf("container %s: has no command, and there is no image here that could have one", c.Name)
	}
	if len(c.EnvFrom) > 0 {
		return nil, nil, fmt.Errorf("container %s: envFrom is not known here", c.Name)
	}
	// In order: a variable may refer to those before it.
	values := map[string]string{}
	for _, e := range c.Env {
		value := expand(e.Value, values)
		if e.ValueFrom != nil {
			var ok bool
			if e.ValueFrom.FieldRef == nil {
				return nil, nil, fmt.Errorf("container %s: env %s: only fieldRefs are known here", c.Name, e.Name)
			}
			if value, ok = fields[e.ValueFrom.FieldRef.FieldPath]; !ok {
				return nil, nil, fmt.Errorf("container %s: env %s: field %s is not known here", c.Name, e.Name, e.ValueFrom.FieldRef.FieldPath)
			}
		}
		values[e.Name] = value
		env = append(env, e.Name+"="+value)
	}
	for _, arg := range slices.Concat(c.Command, c.Args) {
		argv = append(argv, expand(arg, values))
	}
	return argv, env, nil
}

// expand replaces $(NAME) by its value, and $$ by $. A name without a value stays
// as it is written (third_party/forked/golang/expansion in k8s.io/kubernetes).
func expand(s string, values map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		s = after
		if strings.HasPrefix(after, "$") {
			out.WriteByte('$')
			s = after[1:]
			continue
		}
		if name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")"); closed && strings.HasPrefix(after, "(") {
			if value, ok := values[name]; ok {
				out.WriteString(value)
			} else {
				out.WriteString("$(" + name + ")")
			}
			s = rest
			continue
		}
		out.WriteByte('$')
	}
}
