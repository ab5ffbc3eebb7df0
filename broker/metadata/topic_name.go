package metadata

import (
	"github.com/gregor-broker/gregor/wire/errcode"
	"github.com/twmb/franz-go/pkg/kerr"
)

const maxTopicName = 249

// ValidTopicName returns an INVALID_TOPIC_EXCEPTION that says what is wrong with a topic's name, nil for a legal one
// (org.apache.kafka.common.internals.Topic.validate).
func ValidTopicName(name string) error {
	switch {
	case name == "":
		return errcode.New(kerr.InvalidTopicException, "the topic name is empty")
	case name == "." || name == "..":
		return errcode.New(kerr.InvalidTopicException, `a topic cannot be named "." or ".."`)
	case len(name) > maxTopicName:
		return errcode.Newf(kerr.InvalidTopicException, "the topic name has %d characters, more than %d", len(name), maxTopicName)
	}
	for i := range len(name) {
		if !legalInTopic(name[i]) {
			return errcode.Newf(kerr.InvalidTopicException,
				"the topic name %q has a character other than ASCII letters, digits, '.', '_' and '-'", name)
		}
	}
	return nil
}

func legalInTopic(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}
