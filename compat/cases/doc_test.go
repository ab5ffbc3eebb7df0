// Package cases sends what users met elsewhere, raw, to a broker alone and to one on ZooKeeper, and checks Kafka's answers. Each case stands
// for a kind of fault; beside those named here TestNeighbours holds what lies near them against transcripts of Kafka.
//
//	P1  resent batches          TestP1ResentBatches TestP1AfterRestart · compat/cluster TestNextLeaderKnowsBatches
//	P2  acks                    TestP2Acks · broker/api TestProduceQuota TestSilentProduceIsExempt
//	P5  timestamps              TestP5LogAppendTime TestP5TimestampLimits
//	P6  leaders named too early TestP6LeaderNamedOnceItServes · compat/cluster TestLeadersNamedOnceTheyServe
//	F1  one big batch           TestF1OneBigBatch TestF1HardLimits TestF1ConvertedWithinLimits
//	F3  offsets by time         TestF3OffsetsByTime TestF3OffsetsBySegment · compat/cluster TestNextLeaderKnowsBatches · compat/txn TestTranscripts
//	F5  zstd for old clients    TestF5ZstdForOldClients
//	G1  first joins             TestG1MemberIDRequired TestG1Joins
//	G3  commits from outside    TestG3Commits
//	T1  expired transactions    compat/txn TestTranscripts TestTranscriptsOnZooKeeper · compat/cluster TestExpiryOutlivesTheCoordinator
//	T3  busy transactional ids  compat/txn TestTranscripts TestTranscriptsOnZooKeeper
//	T5  partly failed additions compat/txn TestTranscripts TestTranscriptsOnZooKeeper
//	S1  compaction              TestS1CompactionKeepsOffsets · log/cleaner TestEmptiedBatch · compat/cluster TestReplicaOfACompactedLog
//	S3  trimming                TestS3DeleteRecords · compat/tools TestDeleteRecords · compat/cluster TestDeleteRecordsOfReplicas
//	C1  lost sessions           compat/cluster TestC1PausedBroker TestDuplicateID TestCampaign · controller TestOwnLeftover
//	C3  nodes in ZooKeeper      compat/cluster TestZooKeeperShell TestQuotaNodes TestEmptiedQuotaNodes TestMixed
//	C4  directories of others   TestC4MismatchedDirectories TestC4EmptiedZooKeeper · compat/cluster TestWrongIdentity
//	A1  altered configs         TestA1AlterConfigs
//	A3  topics made by asking   TestA3AutoCreation · compat/cluster TestAutoCreationAnywhere
//	N1  versions of the future  TestN1ApiVersionsOfTheFuture
//	N3  advertised versions     TestN3AdvertisedVersions TestN3UnknownRequests · compat/clients TestN3CompressionStaysOn TestKcat · compat/sarama
//	                            TestVersions · compat/tools TestConsole TestBrokerAPIVersions
package cases
