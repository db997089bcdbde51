package mutate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// environment returns the variables that are injected into every container, in order. The
// caller must not change them.
func (in *input) environment() []corev1.EnvVar {
	if in.env != nil {
		return in.env
	}
	ca := corev1.EnvVar{Name: api.EnvCAFile, Value: in.file(api.BundleKey)}
	if in.choice.By == choose.ByNothing {
		in.env = []corev1.EnvVar{ca}
	} else {
		in.env = []corev1.EnvVar{
			{Name: api.EnvCertFile, Value: in.file(corev1.TLSCertKey)},
			{Name: api.EnvKeyFile, Value: in.file(corev1.TLSPrivateKeyKey)},
			ca,
		}
		for f := range (in.request.Formats & in.choice.Formats).Formats() {
			if f.Variable != "" {
				in.env = append(in.env, corev1.EnvVar{Name: f.Variable, Value: in.file(f.Files[0])})
			}
		}
		if in.request.Formats&in.choice.Formats&formats.Encrypted() != 0 {
			in.env = append(in.env, corev1.EnvVar{Name: api.EnvKeystorePassword, Value: in.choice.Password})
		}
	}
	return in.env
}

// variables returns the values of the container's variables, including injected ones.
func (in *input) variables(c *corev1.Container) map[string]string {
	values := make(map[string]string, len(c.Env)+3)
	if in.settings.Mode != api.ModeMount {
		for _, e := range in.environment() {
			values[e.Name] = e.Value
		}
	}
	for _, e := range c.Env {
		values[e.Name] = e.Value
	}
	return values
}

// indexEnv returns the index of the container's variable, or -1.
func indexEnv(c *corev1.Container, name string) int {
	return slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
}

// ownVariables returns the names of the variables that the container sets to another value.
func ownVariables(c *corev1.Container, variables []corev1.EnvVar) (own []string) {
	for _, v := range variables {
		if i := indexEnv(c, v.Name); i >= 0 && (c.Env[i].Value != v.Value || c.Env[i].ValueFrom != nil) {
			own = append(own, v.Name)
		}
	}
	return own
}

// setEnvironment inserts the variables of the pair, then those of the program.
func setEnvironment(in *input, c api.ContainerRef, ofProgram []corev1.EnvVar, patch *jsonpatch.Patch, report *Report) {
	if setVariables(c, in.environment(), ofProgram, patch, report) {
		report.has(c, partEnv)
	}
}

// setVariables inserts variables, except those that the container sets itself, and then further ones, before
// the container's own. The kubelet expands variables in order, so the container's own can refer to the
// injected ones. It reports whether the container has any of the variables with the right value.
func setVariables(c api.ContainerRef, variables, further []corev1.EnvVar, patch *jsonpatch.Patch, report *Report) (some bool) {
	own := ownVariables(c.Container, variables)
	if len(own) > 0 {
		report.note(reasons.Note{Reason: reasons.EnvAlreadySet, Containers: []string{c.Name}, Detail: strings.Join(own, ", ")})
	}
	if len(c.EnvFrom) > 0 {
		report.note(reasons.Note{Reason: reasons.EnvFrom, Containers: []string{c.Name}})
	}
	missing := make([]corev1.EnvVar, 0, len(variables)+len(further))
	for _, v := range variables {
		i := indexEnv(c.Container, v.Name)
		if i < 0 {
			missing = append(missing, v)
		}
		some = some || i < 0 || c.Env[i].Value == v.Value
	}
	path := jsonpatch.Field(c, "env")
	jsonpatch.Insert(patch, path, patch.Grown(path, len(c.Env)), 0, append(missing, further...))
	return some
}
