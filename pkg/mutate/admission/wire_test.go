package admission

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/mutate/decode"
	"github.com/servingcert/servingcert/test/bounded"
)

// TestWhatIsReadKeepsNothingOfTheBuffer, which is that of another review then: of pods as the API
// server accepts them, and of what only a client that is not the API server would send.
func TestWhatIsReadKeepsNothingOfTheBuffer(t *testing.T) {
	corpus, err := os.ReadFile("../../../test/integration/webhook/testdata/corpus.yaml")
	require.NoError(t, err)
	objects := map[string]string{
		"a name twice":      `{"spec":{"os":{"name":"windows"},"containers":[{"name":"a"}]},"metadata":{"name":"x"},"metadata":{"labels":{"a":"b"}}}`,
		"a label twice":     `{"metadata":{"labels":{"app":"a","app":"web"}}}`,
		"a list twice":      `{"spec":{"containers":[{"name":"a"},{"name":"b"}],"containers":[{"name":"c"}]}}`,
		"not UTF-8":         "{\"metadata\":{\"name\":\"a\xffb\"}}",
		"escapes":           `{"metadata":{"name":"\u0061\ud834\udd1e\/\n","labels":{"\u0061pp":"web"}},"sp\u0065c":{"containers":[{"name":"\""}]}}`,
		"null":              `null`,
		"null everywhere":   `{"metadata":null,"spec":{"volumes":[null],"containers":[null,{"args":[null],"env":[null],"ports":null,"readinessProbe":null,"restartPolicy":null}],"os":null,"nodeSelector":null,"securityContext":null}}`,
		"empty":             `{"spec":{"volumes":[],"containers":[{"args":[],"env":[],"envFrom":[]}],"nodeSelector":{}}}`,
		"ports of probes":   `{"spec":{"containers":[{"readinessProbe":{"httpGet":{"port":8443}},"livenessProbe":{"tcpSocket":{"port":"https"}},"lifecycle":{"preStop":{"httpGet":{"port":1}}}}]}}`,
		"quantities":        `{"spec":{"volumes":[{"name":"a","emptyDir":{"sizeLimit":"1Gi"}},{"name":"b","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":1}}}}}}]}}`,
		"what is not known": `{"spec":{"containers":[{"name":"a","new":{"x":[1,2.5e3,true,null,{}]}}]},"new":"x"}`,
	}
	for _, doc := range strings.Split(string(corpus), "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		require.NoError(t, err)
		objects[string(raw)] = string(raw)
	}
	ordinary, err := json.Marshal(ordinaryPod())
	require.NoError(t, err)
	objects["ordinary"] = string(ordinary)
	require.Greater(t, len(objects), 60)
	for name, object := range objects {
		var want struct{ Request *request }
		require.NoError(t, json.Unmarshal([]byte(review(object)), &want), name)
		data := []byte(review(object))
		got, status, err := parse(data)
		require.NoError(t, err, name)
		clear(data) // the buffer is that of another review now
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, want.Request, got, name)
	}
}

func TestShapeOf(t *testing.T) {
	for text, want := range map[string]shape{
		``:                         {},
		`{}`:                       {1, 0},
		`{"a":[1,2],"b":"[,\",{"}`: {4, 0},
		review(`{"spec":{"containers":[{},{"a,":"\\"},{"b":[1,2,3,4,5]}]}}`):             {23, 3},
		review(`{"spec":{"containers":[{}],"volumes":[{},{}],"tolerations":[1,2,3,4]}}`): {24, 4},
		`]]]]]]]]`: {},
	} {
		assert.Equal(t, want, shapeOf([]byte(text)), text)
	}
}

// TestASmallReviewIsWithinTheLimits: whatever its bytes are. Where it ceases to be small its
// shape decides.
func TestASmallReviewIsWithinTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"[", "{", "]", "}", ",", `"`, `\`, `","`, "[[[[[", "{},", "1"})
		var data []byte
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			times := rapid.OneOf(rapid.IntRange(1, 4), rapid.IntRange(990, 1010), rapid.IntRange(29_990, 30_010)).Draw(t, "times")
			data = append(data, strings.Repeat(piece.Draw(t, "piece"), times)...)
		}
		if s := shapeOf(data); isSmall(data) && (s.values > maxValues || s.longest > decode.MaxElements) {
			t.Fatalf("%+v", s)
		}
	})
	ordinary, err := json.Marshal(reviewOf(t, ordinaryPod()))
	require.NoError(t, err)
	assert.True(t, isSmall(ordinary))
	list := `[[[[[` + strings.Repeat("1,", decode.MaxElements-1) + "1"
	assert.True(t, isSmall([]byte(list)))
	assert.Equal(t, decode.MaxElements, shapeOf([]byte(list)).longest)
	assert.False(t, isSmall([]byte(list+",1")))
	assert.True(t, isSmall([]byte(strings.Repeat("[", maxValues))))
	assert.False(t, isSmall([]byte(strings.Repeat("[", maxValues+1))))
}

// TestALongListIsRefusedBeforeItIsDecoded: whichever of the pod's lists it is, also if
// another follows that takes its place. Other lists may be as long.
func TestALongListIsRefusedBeforeItIsDecoded(t *testing.T) {
	long := func(n int) string { return "[" + strings.Repeat("{},", n-1) + "{}]" }
	for object, says := range map[string]string{
		`{"spec":{"containers":` + long(1001) + `}}`:                      "1001 containers: must be at most 1000",
		`{"spec":{"initContainers":` + long(1001) + `}}`:                  "1001 containers: must be at most 1000",
		`{"spec":{"volumes":` + long(1001) + `}}`:                         "1001 volumes: must be at most 1000",
		`{"spec":{"containers":` + long(5000) + `,"containers":[{}]}}`:    "5000 containers: must be at most 1000",
		`{"sp\u0065c":{"cont\u0061iners":` + long(1001) + `}}`:            "1001 containers: must be at most 1000",
		`{"spec":{"containers":` + long(1000) + `}}`:                      "",
		`{"spec":{"tolerations":` + long(5000) + `,"containers":[{}]}}`:   "",
		`{"metadata":{"managedFields":` + long(5000) + `,"labels":null}}`: "",
	} {
		var err error
		allocated := bounded.Allocated(func() { _, _, err = parse([]byte(review(object))) })
		if says == "" {
			require.NoError(t, err, "%.60s", object)
			continue
		}
		require.ErrorContains(t, err, says, "%.60s", object)
		assert.Less(t, allocated, uint64(5*len(object)), "%.60s", object)
	}
}

// TestTheLengthOfTheAnswerIsSent, so that it is not sent in chunks.
func TestTheLengthOfTheAnswerIsSent(t *testing.T) {
	h, _ := (&world{cached: knows(webService)}).handler(t, logr.Discard())
	body, err := json.Marshal(reviewOf(t, ordinaryPod()))
	require.NoError(t, err)
	rec := send(h, strings.NewReader(string(body)))
	assert.Equal(t, http.StatusOK, rec.Code)
	assert.EqualValues(t, rec.Body.Len(), rec.Result().ContentLength)
	assert.Positive(t, rec.Body.Len())
}

func TestIsJSON(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON": true,
		"": false, "text/plain": false, "application/json;": true, "application/jsonx": false, "application/yaml": false,
	} {
		assert.Equal(t, want, isJSON(contentType), contentType)
	}
}
