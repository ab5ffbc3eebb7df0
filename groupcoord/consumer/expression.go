package consumer

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gregor-broker/gregor/groupcoord/runtime"
	"github.com/gregor-broker/gregor/groupcoord/schema"
)

// minResolveInterval is how long what a group's expressions stand for is not looked at again, whatever happens.
const minResolveInterval = 10 * time.Second

// expression tells how a member's regular expression has changed.
type expression int8

const (
	expressionSame  expression = iota
	expressionNew              // what it stands for is not known yet
	expressionKnown            // what it stands for is known, or there is none any more
)

// resolveDue is the event of a group whose expressions are to be resolved.
type resolveDue Group

// express looks at the member's regular expression. After GroupMetadataManager.maybeUpdateRegularExpressions.
func (t *turn) express() error {
	before, now := t.old.Said.Regex, t.now.Said.Regex
	if before == now {
		return nil
	}
	t.expressed = expressionNew
	if before != "" && t.g.users(before) == 1 {
		t.write(schema.ConsumerExpression, before, nil)
	}
	switch {
	case now == "":
		t.expressed = expressionKnown
	case t.g.users(now) == 0:
		if _, err := whole(now); err != nil {
			return errBadExpression(now, err)
		}
	case t.g.expressions[now] != nil:
		t.expressed = expressionKnown
	}
	return nil
}

// users returns how many members have an expression.
func (g *Group) users(re string) int {
	n := 0
	for _, m := range g.members {
		if m.present && m.Said.Regex == re {
			n++
		}
	}
	return n
}

// needsResolving reports whether it is time to find out what the group's expressions stand for: there is a new one, there
// are new topics, or it is long ago.
func (t *turn) needsResolving() bool {
	var regexes map[string]bool
	add := func(re string) {
		if re != "" && regexes == nil {
			regexes = map[string]bool{}
		}
		if re != "" {
			regexes[re] = true
		}
	}
	add(t.now.Said.Regex)
	for _, m := range t.g.members {
		if m.present && m.ID != t.now.ID && !sameInstance(&m.View, &t.now) {
			add(m.Said.Regex)
		}
	}
	if len(regexes) == 0 || t.g.resolve != nil && t.g.resolve.Pending() {
		return false
	}
	var last *schema.ExpressionValue
	for _, last = range t.g.expressions {
		break
	}
	if last == nil {
		return true
	}
	age := time.Duration(t.out.Now.WallMs()-last.TimestampMs) * time.Millisecond
	if age <= minResolveInterval {
		return false
	}
	created := t.expressed == expressionNew && t.g.users(t.now.Said.Regex) == 0
	return created || len(regexes) != len(t.g.expressions) || last.Version != t.e.Metadata.TopicsVersion() ||
		age > t.e.Settings.RegexRefreshInterval
}

// Resolve finds out what the group's expressions stand for, and raises its epoch if that is something else than before.
// After GroupMetadataManager.handleRegularExpressionsResult and TopicRegexResolver.
func (g *Group) Resolve(e *Env, out *runtime.Out) {
	w := writer{e: e, out: out, group: g.id}
	regexes := map[string]*schema.ExpressionValue{}
	for _, m := range g.members {
		if m.present && m.Said.Regex != "" {
			regexes[m.Said.Regex] = nil
		}
	}
	version, names, changed := e.Metadata.TopicsVersion(), e.Metadata.TopicNames(), false
	for re := range regexes {
		v := &schema.ExpressionValue{Topics: matching(e, g.id, re, names), Version: version, TimestampMs: out.Now.WallMs()}
		if old := g.expressions[re]; old == nil && len(v.Topics) > 0 || old != nil && !slices.Equal(old.Topics, v.Topics) {
			changed = true
		}
		regexes[re] = v
		e.value = v.Append(e.value[:0])
		w.write(schema.ConsumerExpression, re, e.value)
	}
	topics := map[string]bool{}
	for _, m := range g.members {
		if !m.present {
			continue
		}
		for _, topic := range m.Said.Topics {
			topics[topic] = true
		}
		if v := regexes[m.Said.Regex]; v != nil {
			for _, topic := range v.Topics {
				topics[topic] = true
			}
		}
	}
	hash := e.hashOf(sortedKeys(topics))
	if len(regexes) > 0 && (changed || hash != g.hash) {
		w.groupRecord(g.epoch+1, hash)
		g.refreshed = version
		e.Log.Info("regular expressions of a group stand for other topics now", zap.String("group", g.id), zap.Int32("epoch", g.epoch+1))
	}
}

// whole compiles an expression that names must match from their first to their last character. It is read before anything is put
// around it: a quotation that it leaves open (\Q) ends with it.
func whole(re string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(re, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + parsed.String() + `)\z`)
}

// matching returns the topics that an expression matches as a whole, in order.
func matching(e *Env, group, re string, names []string) []string {
	compiled, err := whole(re)
	if err != nil {
		e.Log.Error("a regular expression that a group subscribes to cannot be read and matches nothing",
			zap.String("group", group), zap.String("regex", re), zap.Error(err))
		return nil
	}
	var topics []string
	for _, name := range names {
		if compiled.MatchString(name) {
			topics = append(topics, name)
		}
	}
	slices.Sort(topics)
	return topics
}

// describeExpressionError is what RE2/J, Kafka's library, says of the same fault.
func describeExpressionError(err error) string {
	var fault *syntax.Error
	if errors.As(err, &fault) {
		return fault.Code.String()
	}
	return err.Error()
}
