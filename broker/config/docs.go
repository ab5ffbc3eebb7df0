package config

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Docs writes the whole table as Markdown, for docs/compatibility.md.
func Docs(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "### Own defaults\n\nWithout ZooKeeper the defaults are those of Kafka 4.4, but for these, "+
		"which let one broker work alone:\n\n| key | Kafka 4.4 | here |\n|---|---|---|\n")
	for i := range brokerTable.keys {
		if k := &brokerTable.keys[i]; k.Embedded != "" {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", k.Name, code(k.kafkaDefault(Kafka44)), code(k.Embedded))
		}
	}
	for _, part := range []struct {
		title string
		table *scopeKeys
	}{
		{"Broker keys", brokerTable}, {"Topic keys", topicTable},
		{"Group keys (without ZooKeeper)", groupTable}, {"Client metrics keys", clientMetricsTable},
		{"Quotas of users and client ids", clientQuotaTable}, {"Quotas of addresses", ipQuotaTable},
	} {
		if part.table == brokerTable {
			fmt.Fprint(b, brokerKeysHead)
		} else {
			fmt.Fprintf(b, "\n### %s\n\n| key | type | default (3.9 / 4.4) | allowed | here | meaning |\n|---|---|---|---|---|---|\n", part.title)
		}
		for i := range part.table.keys {
			if k := &part.table.keys[i]; !k.Internal || k.Ours {
				k.writeDocs(b)
			}
		}
	}
	return b.Flush()
}

const brokerKeysHead = `
### Broker keys

"Changes" says when Kafka lets one change a key, and whether this broker does: read-only (at the start), per-broker, or cluster-wide
(for one broker or for all). A key that would have no effect is not changed while the broker runs: the request is refused with the
reason.

| key | type | default (3.9 / 4.4) | allowed | here | changes | meaning |
|---|---|---|---|---|---|---|
`

func (k *Key) writeDocs(w io.Writer) {
	mode := Kafka44
	if !k.in(mode) {
		mode = Kafka39
	}
	standing := k.docStanding()
	if k.scope == ScopeBroker {
		standing += " | " + k.docUpdate()
	}
	fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s | %s |\n", k.Name, strings.ToLower(typeWords[k.typeIn(mode)].kafka),
		k.docDefault(), cell(k.allowed(mode)), standing, cell(k.Doc))
}

var updateWords = map[Update]string{ReadOnly: "read-only", PerBroker: "per-broker", ClusterWide: "cluster-wide"}

func (k *Key) docUpdate() string {
	old, now := k.updateIn(Kafka39), k.updateIn(Kafka44)
	words := updateWords[now]
	switch {
	case k.In == Kafka39:
		words = updateWords[old]
	case k.In == 0 && old != now:
		words = updateWords[old] + " / " + words
	}
	switch {
	case max(old, now) == ReadOnly:
	case k.AtStart != "":
		words += " in Kafka; here at the start, since " + k.AtStart
	case k.unchangeable():
		words += "; refused"
	}
	return words
}

func (k *Key) docDefault() string {
	old, now := k.kafkaDefault(Kafka39), k.kafkaDefault(Kafka44)
	switch {
	case k.Ours:
		return code(now) + " (gregor's own)"
	case k.In == Kafka39:
		return code(old) + " / –"
	case k.In == Kafka44:
		return "– / " + code(now)
	case old == now:
		return code(now)
	}
	return code(old) + " / " + code(now)
}

func (k *Key) docStanding() string {
	switch k.Standing {
	case Accepted:
		return "no effect: " + cell(k.Why)
	case Clustered:
		return "on ZooKeeper"
	case Extended:
		return "without ZooKeeper, or with gregor.extensions"
	case Refused:
		if only := k.understood(); only != "nothing" {
			return "only " + cell(only) + ": " + cell(k.Why)
		}
		return "refused: " + cell(k.Why)
	}
	return "yes"
}

// code shows a default.
func code(written string) string {
	switch written {
	case none:
		return "none"
	case "":
		return "empty"
	}
	return "`" + cell(written) + "`"
}

// cell makes a text fit for a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// BrokerKeys returns the names of the broker keys that begin with prefix, each with suffix appended: for shell
// completion.
func BrokerKeys(prefix, suffix string) []string { return brokerTable.names(prefix, suffix) }

// TopicKeys returns the names of the topic keys likewise.
func TopicKeys(prefix, suffix string) []string { return topicTable.names(prefix, suffix) }

func (t *scopeKeys) names(prefix, suffix string) []string {
	var names []string
	for i := range t.keys {
		if k := &t.keys[i]; (!k.Internal || k.Ours) && strings.HasPrefix(k.Name, prefix) {
			names = append(names, k.Name+suffix)
		}
	}
	return names
}
