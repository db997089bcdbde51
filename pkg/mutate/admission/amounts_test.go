package admission

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/servingcert/servingcert/test/bounded"
)

// TestAmountsThatAreCostlyToParse are refused wherever the API has an amount, and as soon as they are sent.
func TestAmountsThatAreCostlyToParse(t *testing.T) {
	places := amountsOf(reflect.TypeFor[corev1.Pod](), "%")
	require.Contains(t, places, `{"spec":{"containers":[{"resources":{"limits":{"cpu":%}}}]}}`)
	require.Contains(t, places, `{"spec":{"volumes":[{"emptyDir":{"sizeLimit":%}}]}}`)
	for _, place := range places {
		for _, amount := range []string{
			`"1e-2147483647"`, `"1e999999999"`, `"-1.5E+99999"`, `" 1e-99999999 "`, `1e-99999999`, `1E999999999`,
			`"` + strings.Repeat("1", 1<<16) + `"`, `"0.` + strings.Repeat("1", 1<<16) + `"`, strings.Repeat("1", 1<<16),
		} {
			body := review(strings.Replace(place, "%", amount, 1))
			h, _ := (&world{cached: knows(webService)}).handler(t, logr.Discard())
			allocated := bounded.Allocated(func() {
				rec := send(h, strings.NewReader(body))
				assert.Equal(t, http.StatusBadRequest, rec.Code, "%s: %.40s", place, amount)
				assert.Contains(t, rec.Body.String(), "has more than 64 digits, or more than 3 in its exponent")
				assert.Less(t, rec.Body.Len(), 500)
			})
			assert.Less(t, allocated, uint64(20*len(body)+64<<10), "%s: %.40s", place, amount)
		}
	}
}

// amountsOf returns JSON of each field of a type that is an amount, with a mark for that.
func amountsOf(of reflect.Type, mark string) (found []string) {
	if of == reflect.TypeFor[resource.Quantity]() {
		return []string{mark}
	}
	within := func(t reflect.Type, before, after string) {
		for _, text := range amountsOf(t, mark) {
			found = append(found, before+text+after)
		}
	}
	switch of.Kind() {
	case reflect.Pointer:
		within(of.Elem(), "", "")
	case reflect.Slice:
		within(of.Elem(), "[", "]")
	case reflect.Map:
		within(of.Elem(), `{"cpu":`, "}")
	case reflect.Struct:
		for i := range of.NumField() {
			if field := of.Field(i); field.Anonymous {
				within(field.Type, "", "")
			} else {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				within(field.Type, `{"`+name+`":`, "}")
			}
		}
	}
	return found
}

// TestAmountsThatAreHidden by a second field of the same name, or by an escape in the name.
func TestAmountsThatAreHidden(t *testing.T) {
	for _, limits := range []string{
		`"limits":{"cpu":"1e-99999999","cpu":"1"}`,
		`"limits":{"cpu":"1e-99999999"},"limits":{"cpu":"1"}`,
		`"limi\u0074s":{"cpu":"1e-99999999"}`,
	} {
		assert.Error(t, checkAmounts([]byte(`{"spec":{"containers":[{"resources":{`+limits+`}}]}}`)), limits)
	}
	for _, object := range []string{ // of other kinds
		`{"apiVersion":"v1","kind":"ResourceQuota","spec":{"hard":{"cpu":"1e-99999999"}}}`,
		`{"apiVersion":"v1","kind":"PodList","items":[{"spec":{"overhead":{"cpu":"1e-99999999"}}}]}`,
		`{"apiVersion":"v1","kind":"PersistentVolume","spec":{"capacity":{"storage":"1e-99999999"}}}`,
	} {
		h, _ := (&world{cached: knows(webService)}).handler(t, logr.Discard())
		allocated := bounded.Allocated(func() { send(h, strings.NewReader(review(object))) })
		assert.Less(t, allocated, uint64(256<<10), object)
	}
	// These are not parsed: package resource sees the escape itself.
	var q resource.Quantity
	require.Error(t, json.Unmarshal([]byte(`"1e-9999\u0039"`), &q))
}

// TestWhatIsNoCostlyAmount may look like one.
func TestWhatIsNoCostlyAmount(t *testing.T) {
	digits := strings.Repeat("7", 65)
	for _, pod := range []string{
		`{"metadata":{"labels":{"commit":"12e45678"},"annotations":{"limits":"12e45678 ` + digits + `"}}}`,
		`{"spec":{"containers":[{"image":"web@sha256:1e` + digits + `","args":["12e45678",""],"env":[{"name":"COMMIT","value":"12e45678"}],"resources":{"limits":{"cpu":"1"}}}]}}`,
		`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1e3","memory":"` + digits[1:] + `"},"limits":{"cpu":"1E-999","memory":"0.` + digits[1:] + `Ki"},"claims":[{"name":"12e45678"}]}}]}}`,
		`{"spec":{"volumes":[{"emptyDir":{"sizeLimit":"128Mi"}},{"hostPath":{"path":"/12e45678/"}}]}}`,
	} {
		assert.NoError(t, checkAmounts([]byte(pod)), pod)
		require.NoError(t, json.Unmarshal([]byte(pod), new(corev1.Pod)))
	}
}
