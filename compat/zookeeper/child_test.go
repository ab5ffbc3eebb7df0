package zookeeper

func child() bool { return false }
