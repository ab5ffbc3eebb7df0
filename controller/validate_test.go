package controller

import (
	"strings"
	"testing"

	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestValidTopicName(t *testing.T) {
	for _, name := range []string{"t", "A-b_c.9", "...", strings.Repeat("x", 249)} {
		if err := ValidTopicName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a b", "ä", "a/b", strings.Repeat("x", 250)} {
		if err := ValidTopicName(name); errcode.Of(err) != kerr.InvalidTopicException.Code {
			t.Errorf("%q: %v, want INVALID_TOPIC_EXCEPTION", name, err)
		}
	}
}
