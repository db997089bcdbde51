package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// withoutWaiting is the hint for a request that no running process answers.
const withoutWaiting = "; to request it anyway, use --wait=false"

// installation is where a command looks for the processes that answer its request.
type installation struct {
	namespace string
	flag      string // that names the namespace
	// anywhere: the request is not written to the namespace, so that processes in another one answer it too.
	anywhere bool
}

// anyInstallation is that of a command that writes nothing to the namespace of servingcert. Without
// --system-namespace, the processes may be anywhere.
func anyInstallation(system string) installation {
	return installation{system, "--system-namespace", system == api.DefaultNamespace}
}

// withNamespace is that of a command that writes its request to the namespace of servingcert, which -n names.
func withNamespace(namespace string) installation {
	return installation{namespace: namespace, flag: "-n"}
}

// requireRunning returns an error if one of the named processes, for which the command would wait, is not
// running. It warns about processes that the user may not view. otherwise is appended to the error. It returns
// the namespace in which the processes run, or "" if that is unknown.
func (s streams) requireRunning(ctx context.Context, c *cluster.Cluster, in installation, otherwise string, names ...string) (namespace string, err error) {
	all, err := c.Leading(ctx, in.namespace)
	if err != nil {
		return "", err
	}
	namespace = in.namespace
	for _, p := range all {
		if !slices.Contains(names, p.Name) {
			continue
		}
		switch p.State {
		case doctor.ProcessAway:
			found, hint, err := in.elsewhere(ctx, c, p)
			if err != nil {
				return "", err
			}
			if len(found) == 0 {
				return "", fmt.Errorf("%s%s. Nothing was changed%s", p, hint, otherwise)
			}
			namespace = ""
			if len(found) == 1 {
				namespace = found[0]
			}
		case doctor.ProcessNotSeen:
			_, _ = fmt.Fprintf(s.err, "cannot check whether process %s is running: %s\n", p.Name, p.Why)
			namespace = ""
		case doctor.ProcessRuns:
		}
	}
	return namespace, nil
}

// elsewhere looks for a process in all namespaces if servingcert is not installed where the command looked. It
// returns the namespaces in which the process runs and may answer, sorted; or none, and what was found as a hint.
func (in installation) elsewhere(ctx context.Context, c *cluster.Cluster, p doctor.Process) (found []string, hint string, err error) {
	if !p.Absent {
		return nil, "", nil
	}
	others, forbidden, err := c.Elsewhere(ctx, p.Name)
	switch {
	case err != nil:
		return nil, "", err
	case forbidden:
		return nil, "; if servingcert is installed in another namespace, name it with " + in.flag, nil
	}
	if _, here := others[in.namespace]; here {
		return nil, "", nil
	}
	for _, namespace := range slices.Sorted(maps.Keys(others)) {
		if others[namespace].State == doctor.ProcessRuns {
			found = append(found, namespace)
		}
	}
	switch {
	case len(found) > 0 && in.anywhere:
		return found, "", nil
	case len(found) > 0:
		return nil, fmt.Sprintf("; one runs in namespace %s: name it with %s", api.Listed(found, 3), in.flag), nil
	case len(others) > 0:
		return nil, "; nor does one run in namespace " + api.Listed(slices.Sorted(maps.Keys(others)), 3) + ", which has such a Lease", nil
	}
	return nil, "; no other namespace has such a Lease either", nil
}

// missing returns the error for a namespace without what a signer writes there, with the namespaces in which one runs.
func (in installation) missing(ctx context.Context, c *cluster.Cluster, missing error) error {
	_, hint, err := in.elsewhere(ctx, c, doctor.Process{Name: "signer", Absent: true})
	if err != nil {
		return missing // the hint is an addition
	}
	return fmt.Errorf("%w%s", missing, hint)
}
