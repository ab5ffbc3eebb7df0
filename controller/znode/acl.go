package znode

import "fmt"

// ACL is one entry of an ACL node; the words are Kafka's (Allow, Deny; Read, Write, All, …).
type ACL struct {
	Principal  string `json:"principal"`
	Permission string `json:"permissionType"`
	Host       string `json:"host"`
	Operation  string `json:"operation"`
}

type aclJSON struct {
	ACLs    []ACL `json:"acls"`
	Version int32 `json:"version"`
}

// EncodeACLs is the data of /kafka-acl/TYPE/NAME and /kafka-acl-extended/prefixed/TYPE/NAME.
func EncodeACLs(list []ACL) []byte { return encode(aclJSON{list, 1}) }

// DecodeACLs reads an ACL node.
func DecodeACLs(data []byte) ([]ACL, error) {
	var v aclJSON
	err := decode("ACLs", data, &v)
	return v.ACLs, err
}

// ACLChange is the data of /kafka-acl-extended-changes/acl_changes_SEQ.
type ACLChange struct {
	ResourceType string // as GROUP
	Name         string
	PatternType  string // as PREFIXED
}

type aclChangeJSON struct {
	Version     int32  `json:"version"`
	Type        string `json:"resourceType"`
	Name        string `json:"name"`
	PatternType string `json:"patternType"`
}

// Encode writes version 1.
func (c ACLChange) Encode() []byte {
	return encode(aclChangeJSON{1, c.ResourceType, c.Name, c.PatternType})
}

// DecodeACLChange reads an extended ACL change.
func DecodeACLChange(data []byte) (ACLChange, error) {
	var v aclChangeJSON
	if err := decode("an ACL change", data, &v); err != nil {
		return ACLChange{}, err
	}
	if v.Type == "" || v.PatternType == "" {
		return ACLChange{}, fmt.Errorf("not an ACL change: %s", data)
	}
	return ACLChange{v.Type, v.Name, v.PatternType}, nil
}
