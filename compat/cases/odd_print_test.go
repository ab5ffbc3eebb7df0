package cases

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unsaid are fields that an answer's transcript leaves out: words, and how long it took.
var unsaid = []string{"Version", "UnknownTags", "ThrottleMillis", "ErrorMessage"}

// differing are fields whose values differ from broker to broker; the transcript says only whether there is one.
var differing = []string{"ClusterID", "Host", "Port", "TotalBytes", "UsableBytes", "Size", "Dir", "SubscriptionID", "TopicID", "ClientInstanceID"}

// nodes are fields with ids of brokers.
var nodes = []string{"NodeID", "LeaderID", "Leader", "ControllerID", "Replicas", "ISR", "OfflineReplicas"}

// year2020 is before every time that a test can see, in milliseconds, and more than any other number in an answer.
const year2020 = 1577836800000

// print writes all that an answer says: zero values are left out, arrays of structures come in the order of their texts, as Kafka's
// order is often that of a hash map.
func (o *odd) print(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		return o.print(v.Elem())
	case reflect.Struct:
		return "{" + strings.Join(o.fields(v), " ") + "}"
	case reflect.Slice:
		var texts []string
		for i := range v.Len() {
			texts = append(texts, o.print(v.Index(i)))
		}
		if v.Type().Elem().Kind() == reflect.Struct {
			slices.Sort(texts)
		}
		return "[" + strings.Join(texts, " ") + "]"
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Int64:
		if v.Int() > year2020 {
			return "TIME"
		}
	}
	return fmt.Sprint(v.Interface())
}

// fields are the fields of a structure that are not zero.
func (o *odd) fields(v reflect.Value) (texts []string) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		var text string
		switch {
		case slices.Contains(nodes, name) && f.CanInt() && f.Int() == int64(o.node):
			text = "self"
		case slices.Contains(unsaid, name), f.IsZero() && name != "ErrorCode":
			continue
		case name == "ErrorCode" && f.Int() == 0:
			text = "NONE"
		case name == "ErrorCode":
			text = kerr.TypedErrorForCode(int16(f.Int())).Message
		case name == "ResourceName" && f.Kind() == reflect.String:
			text = o.resource(v.FieldByName("ResourceType").Interface().(kmsg.ConfigResourceType), f.String())
		case slices.Contains(differing, name):
			text = "some"
		case slices.Contains(nodes, name) && f.Kind() == reflect.Slice:
			text = strings.ReplaceAll(fmt.Sprint(f), fmt.Sprint(o.node), "self")
		default:
			text = o.print(f)
		}
		texts = append(texts, name+"="+text)
	}
	return texts
}
