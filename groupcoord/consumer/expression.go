package consumer

import (
	"cmp"
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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
		if t.unreadable != nil {
			return t.unreadable
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
	if len(regexes) == 0 || t.g.resolving || t.g.resolve != nil && t.g.resolve.Pending() {
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

// Resolved is what a group's expressions stand for.
type Resolved struct {
	group   *Group
	version int64               // of the metadata that it is of
	topics  map[string][]string // by expression, in order; those that took too long are not in it
}

// Group returns the group that has asked.
func (r *Resolved) Group() *Group { return r.group }

// Resolve returns the work of finding out what the group's expressions stand for. It may take long, and knows nothing of the group:
// any goroutine may do it. It gives up once stop says so. TakeOver must get what comes out.
func (g *Group) Resolve(e *Env) func(stop func() bool) *Resolved {
	var regexes []string
	for _, m := range g.members {
		if m.present && m.Said.Regex != "" {
			regexes = append(regexes, m.Said.Regex)
		}
	}
	slices.SortFunc(regexes, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	regexes = slices.Compact(regexes)
	g.resolving = true
	metadata, log := e.Metadata, e.Log.With(zap.String("group", g.id))
	return func(stop func() bool) *Resolved {
		r := &Resolved{group: g, version: metadata.TopicsVersion(), topics: map[string][]string{}}
		names := metadata.TopicNames()
		for _, re := range regexes {
			topics, ok := matching(log, re, names, stop)
			if !ok {
				log.Warn("a regular expression that a group subscribes to takes too long to resolve, and stands for what it stood for before",
					zap.String("regex", re), zap.Int("topics", len(names)))
				continue
			}
			r.topics[re] = topics
		}
		return r
	}
}

// TakeOver stores what the group's expressions stand for, and raises its epoch if that is something else than before. Expressions
// that nobody has any more do not count. After GroupMetadataManager.handleRegularExpressionsResult and TopicRegexResolver.
func (g *Group) TakeOver(e *Env, out *runtime.Out, r *Resolved) {
	g.resolving = false
	w := writer{e: e, out: out, group: g.id}
	topics, changed, seen := map[string]bool{}, false, map[string]bool{}
	for _, m := range g.members {
		if !m.present {
			continue
		}
		add(topics, m.Said.Topics)
		re := m.Said.Regex
		if re == "" || seen[re] {
			continue
		}
		seen[re] = true
		v := &schema.ExpressionValue{Version: r.version, TimestampMs: out.Now.WallMs()}
		old, now := g.expressions[re], r.topics[re]
		switch _, resolved := r.topics[re]; {
		case resolved:
			v.Topics = now
			changed = changed || old == nil && len(now) > 0 || old != nil && !slices.Equal(old.Topics, now)
		case old != nil:
			v.Topics = old.Topics
		}
		add(topics, v.Topics)
		e.value = v.Append(e.value[:0])
		w.write(schema.ConsumerExpression, re, e.value)
	}
	hash := e.hashOf(sortedKeys(topics))
	if len(seen) > 0 && (changed || hash != g.hash) {
		w.groupRecord(g.epoch+1, hash)
		g.refreshed = r.version
		e.Log.Info("regular expressions of a group stand for other topics now", zap.String("group", g.id), zap.Int32("epoch", g.epoch+1))
	}
}

func add(set map[string]bool, list []string) {
	for _, s := range list {
		set[s] = true
	}
}

// maxExpressionCost bounds what an expression may grow to: every expression of up to 32 KB of topic names fits, but not counted
// repetitions of repetitions. It bounds the time to look at one name to a fraction of a second.
const maxExpressionCost = 1 << 16

// cost is about how many instructions and ranges of characters an expression compiles to, or more than maxExpressionCost.
func cost(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		if n += cost(sub); n > maxExpressionCost {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1) + 1
	}
	return n
}

// whole compiles an expression that names must match from their first to their last character. It is read before anything is put
// around it: a quotation that it leaves open (\Q) ends with it.
func whole(re string) (*regexp.Regexp, error) {
	parsed, err := parse(re)
	if err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + parsed.String() + `)\z`)
}

// errDuplicateName is a fault for RE2/J, but not for Go.
const errDuplicateName syntax.ErrorCode = "duplicate capture group name"

func parse(re string) (*syntax.Regexp, error) {
	parsed, err := syntax.Parse(re, syntax.Perl)
	switch {
	case err != nil:
		return nil, err
	case cost(parsed) > maxExpressionCost:
		return nil, &syntax.Error{Code: syntax.ErrLarge, Expr: re}
	}
	names := slices.DeleteFunc(parsed.CapNames(), func(name string) bool { return name == "" })
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) < len(names) {
		return nil, &syntax.Error{Code: errDuplicateName, Expr: re}
	}
	return parsed, nil
}

// CheckExpression says why a regular expression cannot be subscribed to. It may take seconds for a hostile one.
func CheckExpression(re string) error {
	if _, err := parse(re); err != nil {
		return fail(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %s.", re, describeExpressionError(err))
	}
	return nil
}

// matching returns the topics that an expression matches as a whole, in order; not ok if stop said so.
func matching(log *zap.Logger, re string, names []string, stop func() bool) (topics []string, ok bool) {
	if stop() {
		return nil, false
	}
	compiled, err := whole(re)
	if err != nil {
		log.Error("a regular expression that a group subscribes to cannot be read and matches nothing", zap.String("regex", re), zap.Error(err))
		return nil, true
	}
	for _, name := range names {
		if stop() {
			return nil, false
		}
		if compiled.MatchString(name) {
			topics = append(topics, name)
		}
	}
	slices.Sort(topics)
	return topics, true
}

// describeExpressionError is what RE2/J, Kafka's library, says of the same fault.
func describeExpressionError(err error) string {
	var fault *syntax.Error
	if errors.As(err, &fault) {
		return fault.Code.String()
	}
	return err.Error()
}
