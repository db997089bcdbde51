package admission

import (
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits of amounts, which are values of type resource.Quantity. Kubernetes takes hours and gigabytes to parse
// 1e-999999999, or to compare 1e999999999: see its pull request 141306. It writes no amount with as many digits,
// so the API server sends none.
const (
	maxDigits   = 64
	maxExponent = 3 // digits
)

// checkAmounts returns an error if the JSON of a pod has an amount that is costly to parse. Other texts
// may look like one: 12e4567 may be a commit.
func checkAmounts(pod []byte) error {
	if !isCostly(pod) {
		return nil
	}
	return json.Unmarshal(pod, reflect.New(amountsOfPod).Interface())
}

// amountsOfPod is a pod with nothing but its amounts, as amount: reading it costs little.
var amountsOfPod = onlyAmounts(reflect.TypeFor[corev1.Pod]())

// onlyAmounts returns a type with the amounts of another, or nil if that has none.
func onlyAmounts(of reflect.Type) reflect.Type {
	if of == reflect.TypeFor[resource.Quantity]() {
		return reflect.TypeFor[amount]()
	}
	switch of.Kind() {
	case reflect.Struct:
		var fields []reflect.StructField
		for i := range of.NumField() {
			if f := of.Field(i); f.IsExported() {
				if f.Type = onlyAmounts(f.Type); f.Type != nil {
					fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag, Anonymous: f.Anonymous})
				}
			}
		}
		if fields != nil {
			return reflect.StructOf(fields)
		}
	case reflect.Pointer:
		if elem := onlyAmounts(of.Elem()); elem != nil {
			return reflect.PointerTo(elem)
		}
	case reflect.Slice:
		if elem := onlyAmounts(of.Elem()); elem != nil {
			return reflect.SliceOf(elem)
		}
	case reflect.Map:
		if elem := onlyAmounts(of.Elem()); elem != nil {
			return reflect.MapOf(of.Key(), elem)
		}
	}
	return nil
}

// amount is one that is not parsed.
type amount struct{}

func (amount) UnmarshalJSON(text []byte) error {
	if isCostly(text) {
		return fmt.Errorf("the amount %.30s has more than %d digits, or more than %d in its exponent", text, maxDigits, maxExponent)
	}
	return nil
}

// isCostly reports whether a text contains an amount with too many digits.
func isCostly(text []byte) bool {
	digits, most := 0, maxDigits
	for i, c := range text {
		if c < '0' || c > '9' {
			digits = 0
			continue
		}
		if digits++; digits == 1 {
			most = maxDigits
			if isExponent(text[:i]) {
				most = maxExponent
			}
		}
		if digits > most {
			return true
		}
	}
	return false
}

// isExponent reports whether an exponent begins after a text.
func isExponent(text []byte) bool {
	if n := len(text); n > 0 && (text[n-1] == '-' || text[n-1] == '+') {
		text = text[:n-1]
	}
	return len(text) > 0 && (text[len(text)-1] == 'e' || text[len(text)-1] == 'E')
}
