package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/hack/scenes/invariant"
)

func names(scenes []*scene) (all []string) {
	for _, s := range scenes {
		all = append(all, s.name)
	}
	return all
}

func TestParse(t *testing.T) {
	for args, want := range map[string][]string{
		"faults":                            append([]string{"alone"}, names(faults())...),
		"faults --short --only=clock-ahead": {"alone", "clock-ahead"},
		"faults --short":                    {"alone", "kill-signer", "kill-webhook", "kill-all", "etcd-rewound", "apiserver", "etcd-slow", "api-errors", "ca-deleted", "disk-full"},
		"attacks --only=tarpits":            {"alone", "attacked"},
	} {
		o, err := parse(strings.Split(args, " "))
		require.NoError(t, err)
		assert.Equal(t, want, names(o.scenes), args)
	}
	for args, want := range map[string]string{
		"":                      `"": the argument must be faults or attacks`,
		"faults --only=x":       `--only: "x": must be of kill-signer, `,
		"attacks --only=etcd":   `--only: "etcd": must be of pod-ports, `,
		"attacks --duration=1s": "--duration 1s: must be at least 10s",
	} {
		_, err := parse(strings.Fields(args))
		assert.ErrorContains(t, err, want)
	}
}

// TestScenesAreDocumented, each once.
func TestScenesAreDocumented(t *testing.T) {
	for page, scenes := range map[string][]*scene{"reliability.md#What is broken": faults(), "limits.md#One tenant against another": attacks()} {
		file, title, _ := strings.Cut(page, "#")
		doc, err := os.ReadFile("../../docs/" + file)
		require.NoError(t, err)
		_, section, _ := strings.Cut(string(doc), "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var documented []string
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
			documented = append(documented, row[1])
		}
		assert.Equal(t, documented, names(scenes), page)
	}
}

// TestJudge: each of these is in the exit code, and longer times are not.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		tolerates invariant.Outcome
		change    func(*work, *result)
		want      []string
	}{
		{invariant.Done, func(*work, *result) {}, nil},
		{invariant.Done, func(k *work, _ *result) { k.measured("a", time.Hour, nil) }, nil},
		{invariant.Done, func(k *work, _ *result) { k.lanes[0].workers = 3 }, []string{"a: 2 were measured"}},
		{invariant.Done, func(k *work, _ *result) { delete(k.samples, "b") }, []string{"b: 0 were measured"}},
		{invariant.Away, func(k *work, _ *result) { k.measured("b", 1, errLate) }, []string{"b: 1 failed, the last: not in time"}},
		{invariant.Done, func(_ *work, r *result) { r.ends = []string{"the signer ended"} }, []string{"the signer ended"}},
		{invariant.Away, func(_ *work, r *result) { r.ends = []string{"the signer ended"} }, nil},
	} {
		w := &world{setting: setting{lanes: []lane{{operation: "a", workers: 2}, {operation: "b", workers: 2, pause: time.Second}}}}
		k, r := &work{world: w, samples: map[string]samples{}}, &result{scene: &scene{name: "x", tolerates: tc.tolerates}}
		for _, operation := range []string{"a", "a", "b"} {
			k.measured(operation, 1, nil)
		}
		tc.change(k, r)
		r.judge(k)
		assert.Equal(t, tc.want, r.violations)
	}
	r := &report{results: []*result{{scene: &scene{name: "etcd"}, violations: []string{"x"}}}, violations: []string{"y"}}
	assert.Equal(t, []string{"etcd: x", "y"}, r.failures())
	assert.Empty(t, (*report)(nil).failures())
}

// TestInsist: a request is made again as long as the scene tolerates how it fails.
func TestInsist(t *testing.T) {
	refusal := apierrors.NewInternalError(errors.New("failed calling webhook"))
	for _, tc := range []struct {
		tolerates invariant.Outcome
		err       error
		again     bool
	}{
		{invariant.Done, errors.New("EOF"), false}, {invariant.Away, errors.New("EOF"), true},
		{invariant.Away, refusal, false}, {invariant.Refused, refusal, true}, {invariant.Refused, errors.New("EOF"), true},
	} {
		k, calls := &work{scene: &scene{tolerates: tc.tolerates}}, 0
		err := k.insist(t.Context(), func(context.Context) error {
			if calls++; calls == 1 {
				return tc.err
			}
			return nil
		})
		assert.Equal(t, tc.again, err == nil, "%v", tc)
		assert.Equal(t, tc.again, calls == 2, "%v", tc)
	}
}
