package consumer

import "testing"

// What is matched is what Kafka's Pattern.matches does: the whole name.
func TestWholeNames(t *testing.T) {
	for _, c := range []struct {
		re, name string
		want     bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a|ab", "ab", true}, {"a|ab", "aba", false}, {"", "", true}, {"", "a", false},
		{`\Qa.b`, "a.b", true}, {`\Qa.b`, "aXb", false}, {`\Qa.b\E.*`, "a.bcd", true}, {"(?i)A", "a", true}, {"(?i)A|B", "b", true},
		{"^a$", "a", true}, {`a\z|b`, "b", true}, {"a.*?", "abc", true}, {"(a)(b)?", "ab", true}, {"(?P<n>a)(?<m>b)()", "ab", true},
	} {
		re, err := whole(c.re)
		if err != nil || re.MatchString(c.name) != c.want {
			t.Errorf("%q matches %q: %v, %v; want %v", c.re, c.name, !c.want, err, c.want)
		}
	}
	for _, bad := range []string{"[", "(", "a)", "a)|(b", `a\`, "(?=x)", `\1`, "(a{1,1000}){1,1000}", "(?P<n>a)(?<n>b)"} {
		if _, err := whole(bad); err == nil {
			t.Errorf("%q is an expression", bad)
		}
	}
}
