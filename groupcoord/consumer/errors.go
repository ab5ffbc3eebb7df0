package consumer

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gregor-broker/gregor/wire/errcode"
)

// fail returns an error with a text for the client.
func fail(kind *kerr.Error, format string, args ...any) error {
	return errcode.New(kind, fmt.Sprintf(format, args...))
}

func errUnknown(member, group string) error {
	return fail(kerr.UnknownMemberID, "Member %s is not a member of group %s.", member, group)
}

func errFencedInstance(member, instance, by string) error {
	return fail(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", member, instance, by)
}

func errFencedEpoch(kind string, received, known int32) error {
	return fail(kerr.FencedMemberEpoch, "The consumer group member has a %s member epoch (%d) than the one known by the group coordinator (%d). "+
		"The member must abandon all its partitions and rejoin.", kind, received, known)
}
