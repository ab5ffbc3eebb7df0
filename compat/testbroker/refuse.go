package testbroker

import (
	"reflect"
	"slices"
)

// The forms of requests and answers are told by their fields' names, which kmsg takes from Kafka's definitions: lists of
// topics hold lists of partitions, and what a request lists under a name, its answer lists under the same.

// answerLists are the lists of answers that have another name than the request's.
var answerLists = map[string]string{"TopicNames": "Topics", "CoordinatorKeys": "Coordinators", "TransactionalIDs": "TransactionStates"}

// scalarFields are where an answer's element holds what in the request is a list of plain values.
var scalarFields = []string{"Topic", "Group", "Key", "Partition", "TransactionalID"}

// selection is what a fault hits of a request.
type selection struct {
	fault *Fault
	name  func(id [16]byte) string // of a topic
	topic bool                     // inside the fault's topic: partitions count
}

// enter says whether the fault hits an element of a list, or something in it.
func (s selection) enter(element reflect.Value) (selection, bool) {
	if s.fault.Topic == "" {
		return s, true
	}
	if s.topic {
		p, ok := partitionOf(element)
		return s, !ok || s.fault.Partitions == nil || slices.Contains(s.fault.Partitions, p)
	}
	if topic, ok := s.topicOf(element); ok {
		s.topic = true
		return s, topic == s.fault.Topic
	}
	return s, element.Kind() == reflect.Struct // groups, transactions: what they list
}

func (s selection) topicOf(element reflect.Value) (string, bool) {
	if element.Kind() == reflect.String {
		return element.String(), true
	}
	if element.Kind() != reflect.Struct {
		return "", false
	}
	if id := element.FieldByName("TopicID"); id.IsValid() && !id.IsZero() {
		return s.name(id.Interface().([16]byte)), true
	}
	f := element.FieldByName("Topic")
	if !f.IsValid() {
		return "", false
	}
	if f.Kind() == reflect.Pointer {
		f = f.Elem()
	}
	return f.String(), f.Kind() == reflect.String
}

func partitionOf(element reflect.Value) (int32, bool) {
	if element.Kind() == reflect.Int32 {
		return int32(element.Int()), true
	}
	if element.Kind() == reflect.Struct {
		if p := element.FieldByName("Partition"); p.IsValid() {
			return int32(p.Int()), true
		}
	}
	return 0, false
}

// hits says whether the fault's topic and partitions are in the request.
func (s selection) hits(request reflect.Value) bool {
	if s.fault.Topic == "" {
		return true
	}
	hit := false
	eachList(request, func(_ string, list reflect.Value) {
		for i := range list.Len() {
			element := list.Index(i)
			if inner, ok := s.enter(element); ok && (inner.topic && isLeaf(element) || element.Kind() == reflect.Struct && inner.hits(element)) {
				hit = true
			}
		}
	})
	return hit
}

// isLeaf says whether an element lists nothing more.
func isLeaf(element reflect.Value) bool {
	leaf := true
	if element.Kind() == reflect.Struct {
		eachList(element, func(string, reflect.Value) { leaf = false })
	}
	return leaf
}

// withhold takes what the fault hits out of the request, and says whether anything is left to be served.
func (s selection) withhold(request reflect.Value) (left bool) {
	eachList(request, func(_ string, list reflect.Value) {
		kept := reflect.MakeSlice(list.Type(), 0, list.Len())
		for i := range list.Len() {
			element := list.Index(i)
			inner, ok := s.enter(element)
			if !ok || !isLeaf(element) && inner.withhold(element) {
				kept = reflect.Append(kept, element)
			}
		}
		list.Set(kept)
		left = left || kept.Len() > 0
	})
	return left
}

// mirror fills an answer with what the fault hits of a request, each with the error, and says whether it found a place for it.
func (s selection) mirror(request, answer reflect.Value) (placed bool) {
	eachList(request, func(name string, list reflect.Value) {
		if other, ok := answerLists[name]; ok {
			name = other
		}
		answers := answer.FieldByName(name)
		if !answers.IsValid() || answers.Kind() != reflect.Slice || answers.Type().Elem().Kind() != reflect.Struct {
			return
		}
		for i := range list.Len() {
			inner, ok := s.enter(list.Index(i))
			if !ok {
				continue
			}
			element := newElement(answers.Type().Elem())
			copyNames(list.Index(i), element)
			if inner.place(list.Index(i), element) {
				answers.Set(reflect.Append(answers, element))
				placed = true
			}
		}
	})
	return placed || s.setError(answer)
}

// place puts the error into the element of an answer that belongs to one of the request.
func (s selection) place(asked, element reflect.Value) bool {
	if asked.Kind() == reflect.Struct && !isLeaf(asked) {
		return s.mirror(asked, element)
	}
	return s.setError(element)
}

func (s selection) setError(answer reflect.Value) bool {
	code := answer.FieldByName("ErrorCode")
	if !code.IsValid() {
		return false
	}
	code.SetInt(int64(s.fault.Error.Code))
	return true
}

// eachList calls f with every list of an element that has entries.
func eachList(v reflect.Value, f func(name string, list reflect.Value)) {
	for i := range v.NumField() {
		field := v.Field(i)
		if field.Kind() != reflect.Slice || field.Len() == 0 || field.Type().Elem().Kind() == reflect.Uint8 {
			continue
		}
		f(v.Type().Field(i).Name, field)
	}
}

func newElement(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if d, ok := v.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	return v.Elem()
}

// copyNames copies what tells an element from others: every plain field that both have, or a plain value.
func copyNames(from, to reflect.Value) {
	if from.Kind() != reflect.Struct {
		for _, name := range scalarFields {
			if assign(to.FieldByName(name), from) {
				return
			}
		}
		return
	}
	for i := range from.NumField() {
		if name := from.Type().Field(i).Name; name != "UnknownTags" && from.Field(i).Kind() != reflect.Slice {
			assign(to.FieldByName(name), from.Field(i))
		}
	}
}

// assign sets a field to a value of its type, or of its type's pointer, or the reverse.
func assign(to, from reflect.Value) bool {
	switch {
	case !to.IsValid():
		return false
	case from.Type() == to.Type():
		to.Set(from)
	case from.Kind() == reflect.Pointer && from.Type().Elem() == to.Type() && !from.IsNil():
		to.Set(from.Elem())
	case to.Kind() == reflect.Pointer && to.Type().Elem() == from.Type():
		to.Set(reflect.New(from.Type()))
		to.Elem().Set(from)
	default:
		return false
	}
	return true
}

// merge adds to an answer the elements of another: to the same topic's where both have it.
func merge(answer, more reflect.Value) {
	eachList(more, func(name string, list reflect.Value) {
		into := answer.FieldByName(name)
		for i := range list.Len() {
			if same := sameName(into, list.Index(i)); same.IsValid() {
				merge(same, list.Index(i))
			} else {
				into.Set(reflect.Append(into, list.Index(i)))
			}
		}
	})
}

func sameName(list, element reflect.Value) reflect.Value {
	for i := range list.Len() {
		same := true
		for _, name := range append(scalarFields, "TopicID") {
			if f := element.FieldByName(name); f.IsValid() && !reflect.DeepEqual(f.Interface(), list.Index(i).FieldByName(name).Interface()) {
				same = false
			}
		}
		if same {
			return list.Index(i)
		}
	}
	return reflect.Value{}
}

// body is the struct of a request or an answer.
func body(m any) reflect.Value { return reflect.ValueOf(m).Elem() }
