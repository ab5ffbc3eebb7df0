package consumer

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// Expressions that would take minutes to match are refused; what people write, and long lists of topics, are not.
func TestExpressionCost(t *testing.T) {
	var list []string
	for i := range 1500 {
		list = append(list, fmt.Sprintf("orders.europe.%06d", i))
	}
	for _, c := range []struct {
		name, re string
		ok       bool
	}{
		{"a list of topics", strings.Join(list, "|"), true},
		{"a name", `[a-z]{1,249}`, true},
		{"words", `(?i)(\pL+-){0,20}\pN{1,5}`, true},
		{"as long as a string can be", strings.Repeat(".", 32767), true},
		{"repetitions of repetitions", strings.Repeat(`((a?){31}){31}`, 70), false},
		{"many repetitions", strings.Repeat(`a{1000}`, 66), false},
		{"many classes", strings.Repeat(`\pL`, 200), false},
	} {
		err := CheckExpression(c.re)
		if (err == nil) != c.ok {
			t.Errorf("%s: %.200v", c.name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: %.200v", c.name, err)
		}
	}
}

// Matching looks at the time between any two names.
func TestMatchingStops(t *testing.T) {
	asked := 0
	topics, ok := matching(zap.NewNop(), "a.*", []string{"a1", "a2", "a3"}, func() bool { asked++; return asked == 3 })
	if ok || topics != nil || asked != 3 {
		t.Errorf("got %v, %v after %d questions", topics, ok, asked)
	}
}
