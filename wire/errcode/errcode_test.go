package errcode

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestOf(t *testing.T) {
	outOfRange := New(kerr.OffsetOutOfRange, "offset 7 is past the end")
	for _, c := range []struct {
		name string
		err  error
		code int16
		text string
	}{
		{"nil", nil, 0, ""},
		{"ours", outOfRange, 1, "offset 7 is past the end"},
		{"wrapped", fmt.Errorf("t-0: %w", outOfRange), 1, "t-0: offset 7 is past the end"},
		{"kafka's", fmt.Errorf("x: %w", kerr.UnknownMemberID), 25, kerr.UnknownMemberID.Description},
		{"unexpected", errors.New("secret"), -1, kerr.UnknownServerError.Description},
	} {
		if got := Of(c.err); got != c.code {
			t.Errorf("%s: code %d, want %d", c.name, got, c.code)
		}
		text := ""
		if m := Message(c.err); m != nil {
			text = *m
		}
		if text != c.text {
			t.Errorf("%s: message %q, want %q", c.name, text, c.text)
		}
	}
	if !errors.Is(fmt.Errorf("w: %w", outOfRange), kerr.OffsetOutOfRange) {
		t.Error("an error of ours must be the kerr error of its code")
	}
}

func TestLongMessageIsCut(t *testing.T) {
	got := *Message(New(kerr.InvalidTopicException, strings.Repeat("ä", 40_000)))
	if len(got) > 1<<15-1 || !utf8.ValidString(got) || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-8:])
	}
}

func TestVersioned(t *testing.T) {
	for _, c := range []struct{ key, version, code, want int16 }{
		{1, 5, 56, 6}, {1, 6, 56, 56}, {0, 3, 56, 56}, {3, 5, 72, 5}, {26, 1, 90, 47}, {26, 2, 90, 90}, {1, 0, 0, 0},
	} {
		if got := Versioned(c.key, c.version, c.code); got != c.want {
			t.Errorf("Versioned(%d, %d, %d) = %d, want %d", c.key, c.version, c.code, got, c.want)
		}
	}
}
