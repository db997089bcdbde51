package caller

import (
	"testing"

	"github.com/servingcert/servingcert/hack/mutants/testdata/month"
)

func TestLastDay(t *testing.T) {
	if month.Rest(31, 31) != 0 {
		t.Error("the last day")
	}
}
