package admission

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// tableTest is a programTable, its gauge and its log.
type tableTest struct {
	*programTable
	gauge prometheus.Gauge
	lines []string
}

func newTableTest() *tableTest {
	tt := &tableTest{gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "valid"})}
	log := funcr.New(func(_, line string) { tt.lines = append(tt.lines, line) }, funcr.Options{})
	tt.programTable = newProgramTable(tt.gauge, log)
	return tt
}

// knows reports whether the table in use has a program of that image.
func (tt *tableTest) knows(image string) bool {
	_, ok := tt.current.Load().ByImage(image)
	return ok
}

// take returns what was logged since the last call.
func (tt *tableTest) take(t *testing.T) string {
	t.Helper()
	require.Len(t, tt.lines, 1)
	line := tt.lines[0]
	tt.lines = nil
	return line
}

func programsMap(key, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.ProgramsName}, Data: map[string]string{key: content}}
}

const acme = "- {program: acme, images: [acme-web], flags: [\"--acme-cert={cert}\"], reload: itself}\n"

func TestProgramTable(t *testing.T) {
	tt := newTableTest()
	assert.Equal(t, programs.Builtin(), *tt.current.Load(), "before the ConfigMap is seen")
	assert.InDelta(t, 1, testutil.ToFloat64(tt.gauge), 0)
	assert.Empty(t, tt.lines)

	tt.changed(programsMap(api.ProgramsKey, acme))
	assert.True(t, tt.knows("acme-web"))
	assert.True(t, tt.knows("prometheus"), "what is built in is still known")
	assert.InDelta(t, 1, testutil.ToFloat64(tt.gauge), 0)
	assert.Contains(t, tt.take(t), `"msg"="took the table of programs"`)

	// A table that is not valid is refused whole, and the last valid one stays.
	for _, tc := range []struct {
		cm   *corev1.ConfigMap
		says string
	}{
		{programsMap(api.ProgramsKey, acme+"- {program: bad, images: [bad], flags: [\"x={cert}\"], reload: itself}\n"), `programs.yaml: line 2: program \"bad\": flags: \"x={cert}\": the first must start with a dash`},
		{programsMap(api.ProgramsKey, "- program: bad\n  image: bad\n"), `programs.yaml: line 2: field image is not a field of a program`},
		{programsMap(api.ProgramsKey, "{"), `programs.yaml: not YAML: `},
		{programsMap("programs.yml", acme), `key \"programs.yml\": must be programs.yaml`},
		{programsMap(api.ProgramsKey, "- {program: bad, images: [bad], flags: [\"--c={dir}/web-config.yml\"], config: {web-config.yml: other}, reload: itself}\n"), `programs.yaml: program \"bad\": config: \"web-config.yml\" differs from that of program `},
	} {
		tt.changed(tc.cm)
		assert.True(t, tt.knows("acme-web"), tc.says)
		assert.False(t, tt.knows("bad"), tc.says)
		assert.InDelta(t, 0, testutil.ToFloat64(tt.gauge), 0, tc.says)
		line := tt.take(t)
		assert.Contains(t, line, `"msg"="table of programs refused: the last valid one stays in use"`)
		assert.Contains(t, line, tc.says)
		assert.Contains(t, line, `"configMap"="servingcert-programs"`)
	}

	tt.changed(programsMap(api.ProgramsKey, "- {program: other, images: [other], none: Ask.}\n"))
	assert.True(t, tt.knows("other"))
	assert.False(t, tt.knows("acme-web"), "the table is replaced, not added to")
	assert.InDelta(t, 1, testutil.ToFloat64(tt.gauge), 0)
	tt.take(t)

	tt.changed(programsMap("other", "{"))
	assert.InDelta(t, 0, testutil.ToFloat64(tt.gauge), 0)
	tt.take(t)
	tt.deleted()
	assert.Equal(t, programs.Builtin(), *tt.current.Load())
	assert.InDelta(t, 1, testutil.ToFloat64(tt.gauge), 0, "what is absent is not wrong")
	assert.Contains(t, tt.take(t), `"msg"="no table of programs: those that are built in are known"`)
}

// TestProgramTableWithManyMistakes: a long list of mistakes is cut, so that a log line has a
// bound.
func TestProgramTableWithManyMistakes(t *testing.T) {
	tt := newTableTest()
	tt.changed(programsMap(api.ProgramsKey, strings.Repeat("- {program: Bad}\n", 500)))
	line := tt.take(t)
	assert.Contains(t, line, `programs.yaml: line 1: program \"Bad\": program: \"Bad\": must be a name`)
	assert.Less(t, len(line), maxLogged*3/2)
}

func TestProgramTableOfNothing(t *testing.T) {
	for name, cm := range map[string]*corev1.ConfigMap{
		"no data":   {ObjectMeta: metav1.ObjectMeta{Name: api.ProgramsName}},
		"an empty":  programsMap(api.ProgramsKey, ""),
		"a comment": programsMap(api.ProgramsKey, "# none yet\n"),
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTableTest()
			tt.changed(cm)
			assert.Equal(t, programs.Builtin(), *tt.current.Load())
			assert.InDelta(t, 1, testutil.ToFloat64(tt.gauge), 0)
		})
	}
	tt := newTableTest()
	tt.changed(toolscache.DeletedFinalStateUnknown{})
	assert.Empty(t, tt.lines, "what is no ConfigMap changes nothing")
	assert.Equal(t, programs.Builtin(), *tt.current.Load())
}
