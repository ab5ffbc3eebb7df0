package insync

// Proposal asks the controller for another ISR (AlterPartition).
type Proposal struct {
	Topic          string
	TopicID        [16]byte
	Partition      int32
	LeaderEpoch    int32
	PartitionEpoch int32 // that it builds on
	ISR            []int32
}

// Outcome is the controller's answer. The rest holds when Code is 0.
type Outcome struct {
	Code           int16
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []int32
}
